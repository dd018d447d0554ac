import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.train.checkpoint.store.layout import (
    INCOMPLETE_SUFFIX,
    files_of_rank,
    folder_of,
    incomplete_in,
    step_of,
    steps_in,
)


@given(st.integers(0, 10**15))
def test_a_folder_name_gives_its_step(step):
    assert step_of(folder_of(step)) == step
    assert step_of(folder_of(step) + INCOMPLETE_SUFFIX) is None


@pytest.mark.parametrize("name", ["", "step-5", "step-000000005", "step-00000005.tmp", "xstep-00000005", "LATEST"])
def test_other_names_have_no_step(name):
    assert step_of(name) is None


def test_steps_are_listed_newest_first():
    names = ["LATEST", "step-00000100", "step-00000300.tmp", "step-00000200", "notes.tmp", "step-200"]
    assert steps_in(names) == [200, 100]
    assert incomplete_in(names) == ["step-00000300.tmp"]


SIZES = st.dictionaries(st.text(min_size=1, max_size=4), st.integers(0, 1000), max_size=20)


@given(SIZES, st.integers(1, 9))
def test_every_file_is_read_by_one_rank(sizes, ranks):
    shares = [files_of_rank(sizes, rank, ranks) for rank in range(ranks)]
    assert sorted(name for share in shares for name in share) == sorted(sizes)


@given(SIZES, st.integers(1, 9))
def test_ranks_read_about_equal_amounts(sizes, ranks):
    loads = [sum(sizes[name] + 1 for name in files_of_rank(sizes, rank, ranks)) for rank in range(ranks)]
    assert max(loads) - min(loads) <= max(sizes.values(), default=0) + 1
