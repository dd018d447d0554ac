"""The reason of a gang whose domains have no room for it."""

from dataclasses import replace

import pytest
from gangs import demand, ledger_of, node, running, waiting

from windlass.core.cycle.scheduler import schedule
from windlass.core.explain.admission_check import admission_refusal
from windlass.core.explain.alternatives import find_alternatives
from windlass.core.model.job import Job, Role, TopologyRequest
from windlass.core.model.reasons import Reason
from windlass.core.nodes.free_capacity import FreeCapacities
from windlass.core.placement.shortage import find_shortage, impossible_verdict

LEVELS = ("block", "rack")


def cluster(*gangs, zone="a"):
    """Two blocks of two racks of two nodes of eight GPUs; the last rack may be in another zone."""
    places = [(block, rack) for block in ("b1", "b2") for rack in ("r1", "r2") for _ in range(2)]
    machines = [
        node(f"n{number}", place=place, zone=zone if number > 6 else "a")
        for number, place in enumerate(places, start=1)
    ]
    return ledger_of(machines, *gangs, levels=LEVELS)


def near(*demands, level="rack", **request):
    return [replace(each, topology=TopologyRequest(level, **request)) for each in demands]


def verdict(ledger, *demands):
    ledger.add_pending(waiting(1, *demands))
    return schedule(ledger.snapshot(), 0).verdicts["j-1"]


BUSY = {"n1": 1, "n3": 1, "n5": 1, "n7": 1}


def test_a_refusal_states_memory_as_people_write_it():
    as_kubelets_report = [node(name, memory=263_846_912 << 10) for name in ("n1", "n2")]
    ledger = ledger_of(as_kubelets_report)
    ledger.hold(replace(running(1, {"n2": 1}), demands=(demand(1, 1, memory=100 << 30),)))
    assert verdict(ledger, demand(2, 1, memory=200 << 30)).message == (
        "needs 2×200Gi memory as one gang: 403.2Gi free on 2 nodes, room for 1 of 2"
    )


def test_the_largest_domain_is_named_with_its_room():
    answer = verdict(cluster(running(1, BUSY)), *near(demand(2, 8)))
    assert answer.reason is Reason.TOPOLOGY_PLACEMENT_FAILED
    assert answer.message == (
        "needs 2×8 gpu as one gang in one rack: 60 free on 8 nodes, room for at most 1 in one of 4 racks (b1/r1)"
    )
    assert (answer.wanted, answer.fits) == (2, 1)


def test_excluded_domains_are_counted_beside_the_nodes():
    answer = verdict(cluster(running(1, BUSY), zone="b"), *near(demand(2, 8, zone="a")))
    assert answer.message == (
        "needs 2×8 gpu as one gang in one rack: 45 free on 6 nodes, room for at most 1 in one of 3 racks (b1/r1); "
        "1 rack lost to label zone=a; 2 nodes lost to label zone=a"
    )


def test_a_shortage_of_all_nodes_together_is_reported_first():
    answer = verdict(cluster(running(1, BUSY)), *near(demand(6, 8), level="block", spread=True))
    assert answer.message == "needs 6×8 gpu as one gang: 60 free on 8 nodes, room for 4 of 6"


def test_the_fullest_domain_decides_a_spread():
    answer = verdict(cluster(running(1, BUSY | {"n2": 5})), *near(demand(8, 4), spread=True))
    assert answer.message == (
        "needs 8×4 gpu as one gang spread evenly by rack: 55 free on 8 nodes, "
        "room for 7, as the fullest of 4 racks (b1/r1) takes 1"
    )


def test_slices_are_counted():
    answer = verdict(cluster(running(1, BUSY)), *near(demand(8, 4), slice=4))
    assert answer.message == (
        "needs 8×4 gpu as one gang in slices of 4, each in one rack: 60 free on 8 nodes, room for 0 slices in 4 racks"
    )


def test_roles_that_fit_singly_but_in_no_domain_together_are_reported():
    roles = near(demand(1, 8, role="chief"), demand(2, 4))
    answer = verdict(cluster(running(1, BUSY)), *roles)
    assert answer.reason is Reason.TOPOLOGY_PLACEMENT_FAILED
    assert answer.message == (
        "needs 2×4 gpu for its role worker in one rack: 7 free on 1 node, room for at most 1 in one of 4 racks (b1/r1)"
    )


@pytest.mark.parametrize(
    ("demands", "message"),
    [
        (
            near(demand(3, 8)),
            "in one rack: 8 nodes could take a replica, room for at most 2 in one of 4 racks (b1/r1), however empty",
        ),
        (
            near(demand(2, 8), level="row"),
            "in one row: 8 nodes could take a replica, the cluster's topology has no level row, however empty",
        ),
    ],
)
def test_a_request_that_no_domain_can_ever_hold_is_impossible(demands, message):
    table = cluster().snapshot().table
    text = impossible_verdict(find_shortage(FreeCapacities(table.capacity), table, demands)).message
    assert text.removeprefix(f"needs {demands[0].count}×8 gpu as one gang ") == message


# --- rejection before it queues ---------------------------------------------------------------------------


def rejection(replicas, gpus, machines=None, levels=LEVELS, **request):
    job = Job("x", (Role("worker", replicas, resources={"gpu": gpus}),), topology=TopologyRequest(**request))
    table = cluster().snapshot().table
    answer = admission_refusal(ledger_of(table.nodes if machines is None else machines, levels=levels).snapshot(), job)
    return answer.message if answer else ""


def test_a_job_that_fits_an_empty_cluster_is_not_refused():
    assert rejection(2, 8, level="rack") == ""
    assert rejection(8, 8, level="rack", slice=2) == ""
    assert rejection(8, 8, level="block", spread=True) == ""
    assert rejection(8, 8, level="rack", required=False) == ""


@pytest.mark.parametrize(
    ("replicas", "request_", "instead"),
    [
        (3, {"level": "rack"}, "largest gang that fits: 2 replicas of 8 gpu"),
        (9, {"level": "block", "slice": 3}, "largest gang that fits: 6 replicas of 8 gpu"),
        (6, {"level": "rack", "slice": 3}, "not even one slice of 3 would fit"),
    ],
)
def test_the_rejection_names_the_largest_gang_that_a_domain_can_hold(replicas, request_, instead):
    assert rejection(replicas, 8, **request_).endswith(instead)


def test_an_unknown_level_is_rejected_with_the_known_ones():
    assert rejection(2, 8, level="rak") == "the cluster's topology has no level rak; did you mean rack?"
    assert rejection(2, 8, level="x") == "the cluster's topology has no level x; its levels are block, rack"
    assert rejection(2, 8, level="rack", levels=()) == "the cluster's topology has no level rack; it has none"


def test_a_level_that_is_only_preferred_may_be_missing_where_there_is_no_topology_at_all():
    assert rejection(2, 8, level="rack", required=False, levels=()) == ""
    assert rejection(2, 8, level="rak", required=False) == "the cluster's topology has no level rak; did you mean rack?"


def test_a_cluster_that_has_not_come_up_yet_refuses_no_job():
    assert rejection(2, 8, machines=(), levels=(), level="rack") == ""


def test_slices_have_to_add_up():
    assert rejection(5, 8, level="rack", slice=2) == "5 replicas of worker: 5 is not a multiple of the slice size 2"
    assert rejection(4, 8, level="rack", slice=2, spread=True).startswith("topology: slice must be at least 1")


# --- what would start instead ---------------------------------------------------------------------------


def offered(*demands, busy=BUSY):
    gang = waiting(2, *demands)
    return [other.change for other in find_alternatives(cluster(running(1, busy), gang).snapshot(), gang, 0)]


def test_the_narrowest_wider_level_that_suffices_is_offered():
    assert offered(*near(demand(2, 8))) == ["1 replica instead of 2", "in one block instead of in one rack"]


def test_the_level_as_a_preference_is_offered():
    busy = {"n1": 1, "n3": 1, "n4": 1, "n5": 1, "n7": 1, "n8": 1}
    assert offered(*near(demand(2, 8)), busy=busy)[-1] == "in one rack only if possible"
    assert offered(*near(demand(8, 4), spread=True), busy=BUSY | {"n2": 5}) == [
        "7 replicas instead of 8",
        "as 16×2 gpu",
        "spread evenly by block instead of spread evenly by rack",
    ]


def test_the_largest_number_of_slices_that_starts_is_offered():
    assert offered(*near(demand(8, 4), slice=4), busy=BUSY | {"n2": 5})[-1] == (
        "in slices of 4, each in one block instead of in slices of 4, each in one rack"
    )
    assert offered(*near(demand(12, 4), slice=3), busy=BUSY | {"n2": 5})[0] == "9 replicas instead of 12"
