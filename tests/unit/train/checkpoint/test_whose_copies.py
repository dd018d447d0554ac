import pytest

from windlass.train.checkpoint.copies.whose import Copy, Run, Whole, copy_of, name_of, partners, run_of, wholes

RUN = Run("0badcafe", "dp=2", 2)


def copies(*pairs):
    return frozenset(Copy(RUN, step, rank) for step, rank in pairs)


def test_names_and_back():
    copy = Copy(run_of("/runs/a", "pp=2,dp=2", 4), 20, 3)
    assert copy_of(name_of(copy)) == copy
    assert copy_of(name_of(copy) + ".tmp") is None
    assert copy_of("lock") is None


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        (["a", "a"], [None, None]),
        (["a", "b"], [1, 0]),
        (["a", "a", "b", "b", "c", "c"], [2, 3, 4, 5, 0, 1]),
        (["a", "a", "a", "b"], [3, 3, 3, 0]),
    ],
)
def test_copies_are_kept_by_the_same_place_on_the_next_node(nodes, expected):
    assert partners(nodes) == expected


def test_a_step_is_whole_when_every_rank_has_it_somewhere_and_its_own_is_preferred():
    everything = copies((10, 0), (10, 1), (20, 0), (20, 1))
    assert wholes([everything, everything], RUN) == [Whole(20, (0, 1)), Whole(10, (0, 1))]


def test_a_node_that_lost_its_memory_gets_its_part_from_its_partner():
    assert wholes([copies((20, 0), (20, 1)), frozenset()], RUN) == [Whole(20, (0, 0))]


def test_a_step_that_one_rank_lacks_is_not_whole():
    assert wholes([copies((20, 0), (10, 0)), copies((10, 1))], RUN) == [Whole(10, (0, 1))]


def test_copies_of_another_mesh_or_place_do_not_count():
    other = frozenset(Copy(RUN._replace(mesh="fsdp=2"), 20, rank) for rank in (0, 1))
    assert wholes([other, other], RUN) == []
