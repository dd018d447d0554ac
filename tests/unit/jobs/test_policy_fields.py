"""Scheduling policy and reservations of a cluster file."""

import time
from dataclasses import fields

import pytest

from windlass.core.model.policy import Policy
from windlass.core.model.reservation import Reservation
from windlass.jobs.cluster.cluster_file import read_cluster
from windlass.jobs.cluster.policy_fields import POLICY
from windlass.jobs.errors import InputError
from windlass.jobs.syntax.text import Text
from windlass.jobs.syntax.timestamps import format_moment, parse_moment

NODES = "nodes: [{name: n, count: 4, gpus: 4}]\n"
EIGHT = 1_795_334_400_000
"""2026-11-22T08:00Z"""


def cluster(text):
    return read_cluster(Text("cluster.yaml", NODES + text))


def error_of(text):
    with pytest.raises(InputError) as error:
        cluster(text)
    return str(error.value)


def test_every_field_of_a_policy_can_be_written():
    """Except for the typical demands, which are not written by hand."""
    names = [field.name for field in fields(Policy) if field.name != "typical_demands"]
    assert [field.name for field in POLICY] == names


def test_the_default_policy_is_that_of_windlass():
    assert cluster("").policy == Policy()
    text = "policy: {order: fair, reservations: -1, preempt: false, min_runtime: 10m, service_limits: [1h, 4h]}"
    expected = Policy(
        "fair",
        reservations=-1,
        starvation_guard=0,
        preempt=False,
        min_runtime=600_000,
        service_limits=(3_600_000, 14_400_000),
    )
    assert cluster(text).policy == expected


def test_reserved_nodes_are_for_the_named_queues_and_users():
    text = (
        "reservations: [{name: exam, nodes: [n1, n2], start: 2026-11-22T08:00Z, end: 2026-11-22T10:00+01:00,"
        " queues: [research], users: [ada], reason: exam}]"
    )
    assert cluster(text).reservations == (
        Reservation("exam", ("n1", "n2"), EIGHT, EIGHT + 3_600_000, ("research",), ("ada",), "exam"),
    )


def test_a_moment_without_a_zone_is_of_this_machines_clock(monkeypatch):
    monkeypatch.setenv("TZ", "UTC-2")
    time.tzset()
    assert parse_moment("2026-11-22 10:00") == EIGHT
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("policy: {order: best}", "2:17: order expects 'fifo' or 'priority'"),
        (
            "policy: {order: fair, starvation_guard: 1h}",
            "2:23: starvation_guard has no effect under order fair: leave it out, or use",
        ),
        (
            "policy: {starvation_guard: 1h, reservations: 0}",
            "2:10: starvation_guard has no effect without reservations",
        ),
        ("policy: {fast: true}", "2:10: unknown field 'fast'"),
        ("reservations: [{name: a}]", "2:16: it lacks nodes; write for example nodes: [n1, n2]"),
        (
            "reservations: [{name: a, nodes: [n9], start: 2026-11-22, end: 2026-11-23}]",
            "2:26: there is no node 'n9'",
        ),
        (
            "reservations: [{name: a, nodes: [n1], start: 2026-11-23, end: 2026-11-22}]",
            "2:58: it ends before it begins",
        ),
        (
            """reservations:
- {name: a, nodes: [n1, n2], start: 2026-11-22, end: 2026-11-24}
- {name: b, nodes: [n2], start: 2026-11-23, end: 2026-11-25}""",
            "4:3: 'a' has n2 at that time already",
        ),
        (
            "reservations: [{name: a, nodes: [n1], start: tomorrow, end: 2026-11-22}]",
            "2:46: start expects a time such as 2026-11-22T08:00 (this machine's clock) or 2026-11-22T08:00Z, not",
        ),
    ],
)
def test_a_fault_is_reported_with_its_place(written, message):
    assert f"cluster.yaml:{message}" in error_of(written)


def test_nodes_have_their_gpu_model_and_sharing():
    text = "nodes: [{name: n, gpus: 4, gpu_type: H100, sharing: milli}, {name: m}]"
    n, m = read_cluster(Text("cluster.yaml", text)).nodes
    assert (n.labels, n.sharing, m.sharing) == ({"gpu-type": "H100"}, "milli", "")


def test_a_node_without_gpus_has_none_to_share():
    with pytest.raises(InputError, match="it has no gpus that could be shared"):
        read_cluster(Text("cluster.yaml", "nodes: [{name: n, sharing: mig}]"))


def test_a_moment_is_written_as_it_is_read():
    assert format_moment(EIGHT) == "2026-11-22T08:00:00Z"
    assert parse_moment(format_moment(EIGHT)) == EIGHT
