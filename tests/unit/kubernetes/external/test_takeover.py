"""Gangs that an earlier scheduler has bound partially."""

import json

from external_pods import pod

from windlass.backends.kubernetes.external import binding_annotations
from windlass.backends.kubernetes.external.binding_annotations import BindingDecision
from windlass.backends.kubernetes.external.takeover import find_bound_gangs

DECISION = BindingDecision("g", {"uid-a": "n1", "uid-b": "n1", "uid-c": "n2"})
KEY = b"the operator's"
WHOLE = binding_annotations.decision_annotation(DECISION, KEY)
PART = binding_annotations.reference_annotation("uid-a")


def find(*pods, usable=lambda _node: True):
    return list(find_bound_gangs({each.metadata.uid: each for each in pods}, usable, KEY))


def test_a_decision_is_read_as_it_was_written():
    first = pod("a", annotations=WHOLE)
    assert binding_annotations.decision_on(first, KEY) == DECISION
    assert (binding_annotations.first_of(first), binding_annotations.first_of(pod("b", annotations=PART))) == (
        "uid-a",
        "uid-a",
    )
    assert binding_annotations.first_of(pod("x", annotations={"windlass.dev/state": "somebody's"})) == "uid-x"


def test_a_gang_whose_pods_are_all_bound_is_complete():
    [gang] = find(pod("a", node="n1", annotations=WHOLE), pod("b", node="n1", annotations=PART))
    assert (gang.name, gang.whole, set(gang.pods)) == ("g", True, {"uid-a", "uid-b"})


def test_an_unbound_pod_keeps_its_node_of_the_decision():
    [gang] = find(pod("a", node="n1", annotations=WHOLE), pod("b"), pod("c", node="n2", annotations=PART))
    assert (gang.whole, gang.possible, gang.nodes["uid-b"]) == (False, True, "n1")


def test_a_gang_is_completed_without_a_pod_that_has_succeeded_already():
    ended = pod("a", node="n1", phase="Succeeded", annotations=WHOLE)
    [gang] = find(ended, pod("b", node="n1", phase="Running", annotations=PART), pod("c"))
    assert (gang.whole, gang.possible, set(gang.pods), gang.nodes["uid-c"]) == (False, True, {"uid-b", "uid-c"}, "n2")


def test_a_decision_that_is_not_the_operators_does_not_count():
    written = json.loads(WHOLE["windlass.dev/state"])
    changed = [
        written | {"nodes": {"n1": ["uid-a", "uid-c"], "n2": ["uid-b"]}},
        written | {"nodes": {**written["nodes"], "n9": ["uid-d"]}},
        written | {"name": "another"},
        {word: value for word, value in written.items() if word != "signature"},
    ]
    forged = [{"windlass.dev/state": json.dumps(each)} for each in changed]
    for annotations in (*forged, binding_annotations.decision_annotation(DECISION, b"another key")):
        assert [set(gang.pods) for gang in find(pod("a", node="n1", annotations=annotations), pod("b"), pod("d"))] == [
            {"uid-a"}
        ]


def test_a_gang_that_cannot_be_completed_is_reported():
    first, bound = pod("a", node="n1", annotations=WHOLE), pod("c", node="n2", annotations=PART)
    assert not find(first, bound, pod("b"), usable=lambda node: node == "n2")[0].possible
    assert not find(first, pod("b"))[0].possible
    assert not find(first, pod("b"), pod("c", node="n2", phase="Failed", annotations=PART))[0].possible
    assert not find(first, pod("b"), pod("c", node="n9"))[0].possible


def test_a_replacement_of_an_ended_pod_is_not_part_of_the_decision():
    ended = pod("b", node="n1", phase="Failed", annotations=PART)
    [gang] = find(pod("a", node="n1", annotations=WHOLE), ended, pod("c", node="n2", annotations=PART), pod("b-2"))
    assert (gang.whole, set(gang.pods)) == (True, {"uid-a", "uid-c"})


def test_pods_bound_one_by_one_are_gangs_of_one():
    assert [set(gang.pods) for gang in find(pod("a", node="n1"), pod("b", node="n2"), pod("c"))] == [
        {"uid-a"},
        {"uid-b"},
    ]
