"""Queues, policy and reservations as objects of the cluster."""

import pytest
import yaml

from windlass.backends.kubernetes.cluster.cluster_settings import ObjectKey, read_settings
from windlass.backends.kubernetes.cluster.topology_levels import Level
from windlass.core.model.job import DEFAULT_QUEUE
from windlass.core.model.policy import Policy


def an_object(name, spec="{}", created="2026-01-01T00:00:00Z"):
    return {"metadata": {"name": name, "creationTimestamp": created}, "spec": yaml.safe_load(spec)}


def test_a_cluster_without_queues_has_the_default_queue():
    found = read_settings([], [], [], [])
    assert [queue.name for queue in found.queues] == [DEFAULT_QUEUE]
    assert (found.policy, found.reservations, found.levels, found.faults) == (Policy(), (), (), {})


def test_queues_form_trees_with_shares():
    found = read_settings(
        [
            an_object("vision", "{parent: research, quota: {gpu: 8, memory: 1Ti}, borrowing: {gpu: 4}, weight: 2}"),
            an_object("research", "{half_life: 7d}"),
        ],
        [],
        [],
        [],
    )
    vision = next(queue for queue in found.queues if queue.name == "vision")
    assert vision.nominal == {"gpu": 8, "memory": 2**40}
    assert (vision.parent, vision.weight, vision.borrowing) == ("research", 2, {"gpu": 4})
    assert vision.half_life == 7 * 24 * 3_600_000
    assert not found.faults


def test_an_invalid_queue_does_not_change_the_others():
    found = read_settings([an_object("good"), an_object("bad", "{wight: 2, quota: {gpu: -1}}")], [], [], [])
    assert [queue.name for queue in found.queues] == [DEFAULT_QUEUE, "good"]
    fault = found.faults[ObjectKey("Queue", "bad")]
    assert "did you mean 'weight'?" in fault
    assert "gpu" in fault


def test_a_field_of_a_later_version_is_left_out():
    found = read_settings(
        [an_object("a", "{weight: 3, colour: red}")], [an_object("default", "{order: fair, x: 1}")], [], []
    )
    assert found.queues[1].weight == 3
    assert found.policy.order == "fair"
    assert "unknown field 'colour'" in found.faults[ObjectKey("Queue", "a")]
    assert "unknown field 'x'" in found.faults[ObjectKey("SchedulingPolicy", "default")]


@pytest.mark.parametrize("levels", ["3", "[3]", "[{level: [], labels: [a]}]", "[{level: a, labels: {}}]"])
def test_unreadable_levels_are_replaced_by_those_of_labels(levels):
    found = read_settings([], [an_object("default", f"{{order: fair, topology: {levels}}}")], [], [])
    assert (found.levels, found.policy.order) == ((), "fair")
    assert "topology" in found.faults[ObjectKey("SchedulingPolicy", "default")]


def test_a_queue_without_its_parent_stays_and_is_reported():
    found = read_settings([an_object("a", "{parent: b}"), an_object("c", "{parent: c}")], [], [], [])
    assert [queue.name for queue in found.queues] == [DEFAULT_QUEUE, "a", "c"]
    assert found.faults[ObjectKey("Queue", "a")] == "there is no queue b; declare it, or leave parent out"
    assert "goes round in a circle" in found.faults[ObjectKey("Queue", "c")]


def test_the_policy_has_its_settings_and_topology_levels():
    policy = "{order: fair, preempt: false, topology: [{level: hall, labels: [a/hall]}, {level: host, labels: [a/b]}]}"
    found = read_settings([], [an_object("other"), an_object("default", policy)], [], [])
    assert (found.policy.order, found.policy.preempt) == ("fair", False)
    assert found.levels == (Level("hall", ("a/hall",)), Level("host", ("a/b",)))
    assert list(found.faults) == [ObjectKey("SchedulingPolicy", "other")]


@pytest.mark.parametrize("spec", ["{order: fastest}", "{order: fifo, starvation_guard: 1h}"])
def test_an_invalid_policy_is_reported(spec):
    assert list(read_settings([], [an_object("default", spec)], [], []).faults) == [
        ObjectKey("SchedulingPolicy", "default")
    ]


REPAIR = "{nodes: [n1], start: 2026-11-22T08:00, end: 2026-11-22T18:00, reason: cables}"


def test_the_older_of_two_reservations_of_one_node_is_valid():
    found = read_settings([], [], [an_object("b", REPAIR, "2026-02-01T00:00:00Z"), an_object("a", REPAIR)], ["n1"])
    assert [each.name for each in found.reservations] == ["a"]
    assert found.faults == {ObjectKey("Reservation", "b"): "'a' has n1 at that time already"}


def test_a_missing_node_may_be_reserved():
    found = read_settings([], [], [an_object("repair", REPAIR)], [])
    assert [each.nodes for each in found.reservations] == [("n1",)]
    assert found.faults == {ObjectKey("Reservation", "repair"): "there is no node n1"}


@pytest.mark.parametrize("spec", ["{}", "{nodes: [n1], start: tomorrow, end: soon}", "null", "[]"])
def test_an_incomplete_reservation_is_reported(spec):
    found = read_settings([], [], [an_object("repair", spec)], ["n1"])
    assert not found.reservations
    assert list(found.faults) == [ObjectKey("Reservation", "repair")]
