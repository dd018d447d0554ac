import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.train.checkpoint.store.layout import (
    INCOMPLETE_SUFFIX,
    CheckpointKey,
    files_of_rank,
    folder_of,
    incomplete_in,
    key_of,
    keys_in,
)


@given(st.integers(0, 10**15), st.integers(0, 10**15))
def test_a_folder_name_gives_its_step_and_token(step, token):
    assert key_of(folder_of(step, token)) == CheckpointKey(token, step)
    assert key_of(folder_of(step, token) + INCOMPLETE_SUFFIX) is None


OTHER_NAMES = ["", "step-5", "step-000000005", "step-00000005.tmp", "xstep-00000005", "LATEST"]


@pytest.mark.parametrize("name", [*OTHER_NAMES, "step-00000005.lease0", "step-00000005.lease07", "step-00000005.lease"])
def test_other_names_have_no_step(name):
    assert key_of(name) is None


def test_steps_are_listed_newest_first():
    names = ["LATEST", "step-00000100", "step-00000300.tmp", "step-00000200", "notes.tmp", "step-200"]
    assert keys_in(names) == [(0, 200), (0, 100)]
    assert incomplete_in(names) == ["step-00000300.tmp"]


def test_checkpoints_of_a_later_writer_are_newer():
    names = ["step-00000500.lease1", "step-00000400.lease1", "step-00000450.lease2", "step-00000300"]
    assert keys_in(names) == [(2, 450), (1, 500), (1, 400), (0, 300)]


SIZES = st.dictionaries(st.text(min_size=1, max_size=4), st.integers(0, 1000), max_size=20)


@given(SIZES, st.integers(1, 9))
def test_every_file_is_read_by_one_rank(sizes, ranks):
    shares = [files_of_rank(sizes, rank, ranks) for rank in range(ranks)]
    assert sorted(name for share in shares for name in share) == sorted(sizes)


@given(SIZES, st.integers(1, 9))
def test_ranks_read_about_equal_amounts(sizes, ranks):
    loads = [sum(sizes[name] + 1 for name in files_of_rank(sizes, rank, ranks)) for rank in range(ranks)]
    assert max(loads) - min(loads) <= max(sizes.values(), default=0) + 1
