import pytest

from windlass.train.checkpoint.replicas.replica_placement import (
    CompleteStep,
    Replica,
    RunKey,
    complete_steps,
    file_name,
    parse_file_name,
    partner_ranks,
    run_key,
)

RUN = RunKey("0badcafe", "dp=2", 2)


def copies(*pairs):
    return frozenset(Replica(RUN, step, rank) for step, rank in pairs)


def test_file_names_are_parsed_back():
    copy = Replica(run_key("/runs/a", "pp=2,dp=2", 4), 20, 3)
    assert parse_file_name(file_name(copy)) == copy
    assert parse_file_name(file_name(copy) + ".tmp") is None
    assert parse_file_name("lock") is None


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        (["a", "a"], [None, None]),
        (["a", "b"], [1, 0]),
        (["a", "a", "b", "b", "c", "c"], [2, 3, 4, 5, 0, 1]),
        (["a", "a", "a", "b"], [3, 3, 3, 0]),
    ],
)
def test_replicas_are_stored_by_the_same_position_on_the_next_node(nodes, expected):
    assert partner_ranks(nodes) == expected


def test_a_step_is_complete_when_every_replica_exists_and_own_ones_are_preferred():
    everything = copies((10, 0), (10, 1), (20, 0), (20, 1))
    assert complete_steps([everything, everything], RUN) == [CompleteStep(20, (0, 1)), CompleteStep(10, (0, 1))]


def test_a_node_without_replicas_uses_those_of_its_partner():
    assert complete_steps([copies((20, 0), (20, 1)), frozenset()], RUN) == [CompleteStep(20, (0, 0))]


def test_a_step_with_a_missing_replica_is_not_complete():
    assert complete_steps([copies((20, 0), (10, 0)), copies((10, 1))], RUN) == [CompleteStep(10, (0, 1))]


def test_replicas_of_another_mesh_or_location_do_not_count():
    other = frozenset(Replica(RUN._replace(mesh="fsdp=2"), 20, rank) for rank in (0, 1))
    assert complete_steps([other, other], RUN) == []
