from dataclasses import replace

from gangs import demand, ledger_of, node, nodes, running, waiting

from windlass.core.explain.alternatives import find_alternatives
from windlass.core.model.gang import Demand
from windlass.core.model.queue import Queue


def offered(gang, *others, machines=None, queues=()):
    snapshot = ledger_of(machines or nodes(2), gang, *others, queues=queues).snapshot()
    return [alternative.change for alternative in find_alternatives(snapshot, gang, 0)]


def test_the_largest_number_of_replicas_that_starts_is_offered():
    assert offered(waiting(2, demand(10, 1)), running(1, {"n1": 8, "n2": 5})) == ["3 replicas instead of 10"]


def test_quota_bounds_the_offered_replicas():
    gang = waiting(2, demand(6, 1), queue="small")
    held = running(1, {"n1": 3}, queue="small")
    assert offered(gang, held, queues=[Queue("small", {"gpu": 7})]) == ["4 replicas instead of 6"]


def test_smaller_replicas_of_the_same_total_are_offered():
    runs = running(1, {"n1": 3, "n2": 3})
    assert offered(waiting(2, Demand("worker", 1, {"gpu": 8, "cpu": 0})), runs) == ["as 2×4 gpu"]


def test_an_odd_number_of_devices_is_not_halved():
    assert offered(waiting(2, demand(1, 7)), running(1, {"n1": 3, "n2": 3})) == []


def test_the_kind_of_gpu_is_never_dropped():
    machines = [node("n1", **{"windlass.dev/gpu": "a/gpu"}), node("n2", **{"windlass.dev/gpu": "b/gpu"})]
    gang = waiting(2, demand(1, 8, **{"windlass.dev/gpu": "a/gpu"}))
    assert offered(gang, running(1, {"n1": 8}), machines=machines) == []


def test_a_request_without_one_label_is_offered():
    machines = [node("n1", zone="a", kind="x"), node("n2", zone="b", kind="y")]
    busy = running(1, {"n1": 1})
    assert offered(waiting(2, demand(1, 8, zone="a")), busy, machines=machines) == ["without nodeSelector zone=a"]
    both = waiting(2, demand(1, 8, zone="a", kind="x"))
    assert offered(both, busy, machines=machines) == ["without nodeSelector kind=x, zone=a"]
    one = waiting(2, demand(1, 8, zone="b", kind="x"))
    assert offered(one, busy, machines=machines) == ["without nodeSelector kind=x"]


def test_the_changed_role_of_several_is_named():
    gang = waiting(2, demand(1, 8, role="chief"), demand(12, 1))
    assert offered(gang) == ["8 replicas of worker instead of 12"]


def test_no_alternative_is_offered_to_a_gang_behind_others():
    first = waiting(1, demand(2, 8))
    assert offered(waiting(2, demand(2, 1)), first, running(9, {"n1": 8})) == []


def test_the_first_gang_stays_first_whatever_it_requests():
    later = replace(waiting(3, demand(1, 8)), since=99)
    assert offered(waiting(2, demand(3, 8)), later) == ["2 replicas instead of 3"]
