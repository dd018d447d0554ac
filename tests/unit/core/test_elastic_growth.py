"""Elastic gangs: the size at which they start, and growth into idle capacity."""

from dataclasses import replace

import numpy as np
from gangs import demand, ledger_of, node, nodes, running

from windlass.core.ledger import Ledger
from windlass.core.model.gang import RunningGang
from windlass.core.model.job import TopologyRequest
from windlass.core.model.node import Topology
from windlass.core.model.plan import Resize
from windlass.core.model.policy import Policy
from windlass.core.model.queue import Queue
from windlass.core.model.resources import GPU_TYPE
from windlass.core.model.status import Placement
from windlass.core.placement.elastic_resizing import place_largest
from windlass.core.preemption.elastic_growth import IdleCapacity, find_growth, next_growth_at
from windlass.core.queues.queue_tree import tree_of
from windlass.core.queues.usage import QueueUsage

NOW = 10_000_000


def elastic(number: int, where: dict[str, int], most: int, **more) -> RunningGang:
    run = replace(running(number, where), **more)
    return replace(run, demands=(replace(run.demands[0], min_count=1, max_count=most),))


def idle(ledger: Ledger, **more) -> IdleCapacity:
    snapshot = ledger.snapshot()
    usage = QueueUsage(tree_of(snapshot.queues), snapshot.usage_by_queue, snapshot.usage_by_user)
    return IdleCapacity(snapshot, NOW, snapshot.free, usage, **more)


def sizes(resizes: tuple[Resize, ...]) -> dict[str, int]:
    return {resize.job_id: len(resize.placement.nodes["worker"]) for resize in resizes}


def test_growth_follows_the_scoring_of_the_policy() -> None:
    machines = [node("n1", 1), node("good", 2, cpu=64), node("starved", 8, cpu=3)]
    typical = ((demand(1, cpu=5), 1),)
    grown = {}
    for scoring in ("tightest", "fgd"):
        ledger = ledger_of(machines, elastic(1, {"n1": 1}, 2))
        ledger.set_cluster(machines, (), None, Policy(scoring=scoring, typical_demands=typical))
        grown[scoring] = [resize.placement.distinct() for resize in find_growth(idle(ledger))]
    assert grown == {"tightest": [("good", "n1")], "fgd": [("n1", "starved")]}


def test_a_gang_starts_in_the_largest_size_that_fits() -> None:
    asked = (replace(demand(8), min_count=2),)
    tried: list[int] = []

    def room_for(most: int) -> int | None:
        def attempt(demands) -> int | None:
            tried.append(demands[0].count)
            return demands[0].count if demands[0].count <= most else None

        return place_largest(asked, attempt)

    assert [room_for(most) for most in (9, 8, 7, 3, 2, 1)] == [8, 8, 7, 3, 2, None]
    assert place_largest((demand(8),), lambda _demands: None) is None


def test_a_gang_grows_in_one_step_as_far_as_possible_and_keeps_its_nodes() -> None:
    (resize,) = find_growth(idle(ledger_of(nodes(2, gpu=4), elastic(1, {"n2": 2}, most=5))))
    assert resize.placement == Placement({"worker": ("n1", "n1", "n1", "n2", "n2")})


def test_a_gang_does_not_grow_onto_nodes_that_others_wait_for() -> None:
    ledger = ledger_of(nodes(2, gpu=4), elastic(1, {"n1": 2}, most=8))
    assert sizes(find_growth(idle(ledger, contended=np.array([False, True])))) == {"r-1": 4}
    assert find_growth(idle(ledger, contended=np.array([True, True]))) == ()


def test_a_gang_does_not_grow_beyond_the_quota_of_its_queue() -> None:
    queues = [Queue("default", {"gpu": 3})]
    assert sizes(find_growth(idle(ledger_of(nodes(2, gpu=4), elastic(1, {"n1": 2}, most=8), queues=queues)))) == {
        "r-1": 3
    }


def test_the_queue_with_the_lower_share_grows_first() -> None:
    queues = [Queue("a"), Queue("b")]
    rich, poor = elastic(1, {"n1": 4}, most=8, queue="a"), elastic(2, {"n2": 1}, most=8, queue="b")
    assert sizes(find_growth(idle(ledger_of(nodes(2, gpu=4), rich, poor, queues=queues)))) == {"r-2": 4}


def test_a_gang_that_has_just_started_or_been_resized_waits() -> None:
    young = elastic(1, {"n1": 1}, most=2, admitted_at=NOW - 1_000)
    resized = elastic(2, {"n1": 1}, most=2, resized_at=NOW - 2_000)
    ground = idle(ledger_of(nodes(1, gpu=4), young, resized))
    assert find_growth(ground) == ()
    assert next_growth_at(ground) == NOW - 2_000 + 300_000


def test_a_gang_that_is_about_to_end_does_not_grow() -> None:
    assert find_growth(idle(ledger_of(nodes(1, gpu=4), elastic(1, {"n1": 1}, most=2, ends_by=NOW + 60_000)))) == ()


def test_a_gang_that_has_begun_to_end_does_not_grow() -> None:
    assert find_growth(idle(ledger_of(nodes(1, gpu=4), elastic(1, {"n1": 1}, most=2, partly_succeeded=True)))) == ()


def test_a_gang_on_a_cordoned_node_does_not_grow() -> None:
    machines = [node("n1", 4, cordoned="by ada"), node("n2", 4)]
    assert find_growth(idle(ledger_of(machines, elastic(1, {"n1": 1}, most=2)))) == ()


def test_a_gang_grows_only_in_its_required_domain() -> None:
    machines = [node("n1", 2, place=("r1",)), node("n2", 2, place=("r1",)), node("n3", 4, place=("r2",))]
    run = elastic(1, {"n1": 1}, most=8)
    run = replace(run, demands=(replace(run.demands[0], topology=TopologyRequest("rack")),))
    ledger = Ledger(machines, [], Topology(("rack",)))
    ledger.hold(run)
    (resize,) = find_growth(idle(ledger))
    assert resize.placement == Placement({"worker": ("n1", "n1", "n2", "n2")})


def test_each_gang_grows_into_what_the_one_before_left() -> None:
    first, second = elastic(1, {"n1": 1}, most=3, since=1), elastic(2, {"n1": 1}, most=9, since=2)
    assert sizes(find_growth(idle(ledger_of(nodes(1, gpu=6), first, second)))) == {"r-1": 3, "r-2": 3}


def in_place(run: RunningGang, count: int, most: int, **more) -> RunningGang:
    """The gang as its only role grows in place from `count` to `most` replicas."""
    role = replace(run.demands[0], count=count, max_count=most, grows_in_place=True, **more)
    return replace(run, demands=(role,))


def test_a_gang_grows_in_place_although_the_node_of_a_replica_is_gone() -> None:
    ledger = ledger_of(nodes(2, gpu=4), in_place(running(1, {"n2": 1, "removed": 1}), 2, most=3))
    (resize,) = find_growth(idle(ledger))
    assert resize.placement == Placement({"worker": ("n2", "removed", "n2")})


def test_growth_in_place_stays_in_the_domain_of_the_nodes_that_are_left() -> None:
    racks = [node("n1", 4, place=("r1",)), node("n2", 2, place=("r2",)), node("n3", 2, place=("r2",))]
    near = TopologyRequest("rack")
    ledger = Ledger(racks, [], Topology(("rack",)))
    ledger.hold(in_place(running(1, {"removed": 1, "n3": 1}), 2, most=5, topology=near))
    (resize,) = find_growth(idle(ledger))
    assert resize.placement == Placement({"worker": ("removed", "n3", "n2", "n2", "n3")})


def test_a_role_without_replicas_grows_on_any_of_its_gpu_models() -> None:
    machines = [node("old", 2, **{GPU_TYPE: "a100"}), node("new", 4, **{GPU_TYPE: "h100"})]
    run = in_place(running(1, {}), 0, most=3, gpu_types=("a100", "h100"))
    (resize,) = find_growth(idle(ledger_of(machines, replace(run, placement=Placement({"worker": ()})))))
    assert resize.placement == Placement({"worker": ("new", "new", "new")})
