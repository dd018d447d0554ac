"""Queues of a cluster file by example."""

import pytest

from windlass.core.model.job import Match
from windlass.core.model.queue import Queue
from windlass.jobs.cluster.cluster_file import read_cluster
from windlass.jobs.cluster.queues import warnings_of
from windlass.jobs.errors import InputError
from windlass.jobs.syntax.text import Text

NODES = "nodes: [{name: n}]\n"


def queues(text):
    return {queue.name: queue for queue in read_cluster(Text("cluster.yaml", NODES + text)).queues}


def error_of(text):
    with pytest.raises(InputError) as error:
        queues(text)
    return str(error.value)


def test_every_field_of_a_queue_can_be_written():
    got = queues("""
queues:
  - {name: research, quota: {gpu: 4}}
  - name: team-a
    parent: research
    weight: 2
    quota: {gpu: 8, cpu: 64, memory: 1Ti}
    borrowing: {gpu: 4}
    lending: {gpu: 2}
    half_life: 7d
    max_running: 20
    user_running: 4
    user_limits: {gpu: 8}
    max_priority: 10
    namespaceSelector:
      matchLabels: {team: vision}
      matchExpressions: [{key: tier, operator: NotIn, values: [trial]}]
""")
    assert got["team-a"] == Queue(
        name="team-a",
        nominal={"gpu": 8, "cpu": 64_000, "memory": 2**40},
        parent="research",
        weight=2,
        borrowing={"gpu": 4},
        lending={"gpu": 2},
        half_life=7 * 86_400_000,
        max_running=20,
        user_running=4,
        user_limits={"gpu": 8},
        max_priority=10,
        namespace_selector=(Match("team", "In", ("vision",)), Match("tier", "NotIn", ("trial",))),
    )


def test_an_empty_selector_is_another_one_than_none():
    got = queues("queues: [{name: a, namespaceSelector: {}}, {name: b}]")
    assert (got["a"].namespace_selector, got["b"].namespace_selector) == ((), None)


def test_a_half_life_holds_for_the_queues_below_until_they_declare_another():
    got = queues("""
queues:
  - {name: org, half_life: 7d}
  - {name: dept, parent: org}
  - {name: a, parent: dept}
  - {name: b, parent: dept, half_life: 0s}
""")
    week = 7 * 86_400_000
    assert {name: queue.half_life for name, queue in got.items()} == {
        "default": 0,
        "org": week,
        "dept": week,
        "a": week,
        "b": 0,
    }


def test_an_unreachable_grace_holds_for_the_queues_below_until_they_declare_another():
    got = queues("""
queues:
  - {name: org, unreachable_grace: 20s, half_life: 7d}
  - {name: dept, parent: org}
  - {name: a, parent: dept, half_life: 0s}
  - {name: b, parent: dept, unreachable_grace: 0s}
""")
    assert {name: queue.unreachable_grace for name, queue in got.items()} == {
        "default": None,
        "org": 20_000,
        "dept": 20_000,
        "a": 20_000,
        "b": 0,
    }
    assert got["a"].half_life == 0
    assert got["b"].half_life == 7 * 86_400_000


def test_a_queue_may_be_a_child_of_the_default_queue():
    assert queues("queues: [{name: a, parent: default}]")["a"].parent == "default"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "queues: [{name: a, namespaceSelector: {matchExpressions: [{key: team, operator: NotIn}]}}]",
            "cluster.yaml:2:20: the selector's team NotIn names no values; name one at least",
        ),
        (
            "queues: [{name: a, parent: b}]",
            "cluster.yaml:2:20: there is no queue b; declare it, or leave parent out",
        ),
        (
            "queues: [{name: a, parent: b}, {name: b, parent: a}]",
            "cluster.yaml:2:20: a → b → a goes round in a circle; one has no parent",
        ),
        (
            "queues: [{name: a, quota: {gpu: 1}, lending: {gpu: 1}}]",
            "cluster.yaml:2:37: it has no parent, so there is no queue to lend to; give it one, or leave lending out",
        ),
        (
            "queues: [{name: lab}, {name: a, parent: lab, lending: {gpu: 1}}]",
            "cluster.yaml:2:46: limits gpu, of which it has no quota; give it one, or leave it out",
        ),
        ("queues: [{name: a, weight: 0}]", "cluster.yaml:2:28: weight expects a whole number from 1 to 1000000, not 0"),
        (
            "queues: [{name: a, half_life: 7}]",
            "cluster.yaml:2:31: half_life expects a duration with a unit: 7s, 7m or 7h",
        ),
        (
            "queues: [{name: a, borrowingLimit: {}}]",
            "cluster.yaml:2:20: unknown field 'borrowingLimit'; it is called 'borrowing' here",
        ),
    ],
)
def test_a_fault_is_reported_with_its_place_and_the_fix(text, line):
    assert line in error_of(text).splitlines()


def test_all_invalid_queues_are_reported_at_once():
    error = error_of("queues: [{name: a, parent: x}, {name: b, parent: y}]")
    assert "there is no queue x" in error
    assert "there is no queue y" in error


@pytest.mark.parametrize(
    ("text", "open_queues"),
    [
        ("queues: [{name: a}, {name: b}]", []),
        ("queues: [{name: lab}, {name: a, parent: lab, quota: {gpu: 4}}]", ["default has no quota of gpu"]),
        ("queues: [{name: default, quota: {gpu: 0}}, {name: a, quota: {gpu: 4}}]", []),
        (
            "queues: [{name: default, quota: {gpu: 1}}, {name: a, quota: {gpu: 4, cpu: 8}}]",
            ["default has no quota of cpu"],
        ),
        ("queues: [{name: lab, quota: {gpu: 8}}, {name: default, parent: lab}]", []),
    ],
)
def test_a_queue_without_a_limit_beside_limited_ones_causes_a_warning(text, open_queues):
    warned = [warning.partition(":")[0] for warning in warnings_of(queues(text).values())]
    assert warned == [f"queue {each}" for each in open_queues]
