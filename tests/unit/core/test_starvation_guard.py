"""Starvation guard: of ten nodes one is closed for a gang that has waited long; gaps on the others stay open."""

from dataclasses import replace

import numpy as np
import pytest
from gangs import admitted, demand, ledger_of, node, nodes, running, waiting

from windlass.core.cycle.scheduler import schedule
from windlass.core.model.job import TopologyRequest
from windlass.core.model.policy import Policy
from windlass.core.model.queue import Queue
from windlass.core.model.reservation import Reservation
from windlass.core.queues.orders.registry import POLICIES
from windlass.core.reservations.release_forecast import NEVER, ReleaseForecast
from windlass.core.reservations.reservation_profile import ReservationProfile

HOUR = 3_600_000
HALF_FULL = [running(n, {f"n{n}": 4}, ends_by=(10 if n == 7 else 30 + n) * HOUR) for n in range(1, 11)]
"""Ten nodes with 4 GPUs free each; n7 is the first to be empty, in ten hours at the latest."""
FULL = [running(n, {f"n{n}": 4 if n == 7 else 8}, ends_by=(10 if n == 7 else 30 + n) * HOUR) for n in range(1, 11)]
"""The same, but only n7 has free GPUs."""
WHOLE = waiting(20, demand(1, 8), since=0, walltime=HOUR)
"""It needs a whole node."""


def snapshot_of(*gangs, policy=None, reservations=()):
    snapshot = ledger_of(nodes(10), *gangs).snapshot()
    return replace(snapshot, policy=policy or Policy(), reservations=tuple(reservations))


def closed_nodes(walltime, *, blocked=WHOLE, now=2 * HOUR, **more):
    """Nodes on which a gang of one GPU may not start behind a waiting one."""
    snapshot = snapshot_of(*HALF_FULL, **more)
    profile = ReservationProfile(snapshot, now, snapshot.free.copy(order="F"))
    profile.reserve(blocked)
    room = profile.free_for(waiting(21, demand(1), walltime=walltime))[:, 0].tolist()
    return [node.name for node, free in zip(snapshot.table.nodes, room, strict=True) if free == 0]


def guarded_nodes_of(snapshot, gang):
    """Nodes that are guarded for the gang, by name."""
    profile = ReservationProfile(snapshot, gang.since + 3 * HOUR, snapshot.free.copy(order="F"))
    profile.reserve(gang)
    (reservation,) = profile.reservations()
    spare = [] if reservation.guarded is None else reservation.guarded.tolist()
    return [node.name for node, kept in zip(snapshot.table.nodes, spare, strict=False) if kept]


def elastic(run, least, most):
    return replace(run, demands=(replace(run.demands[0], min_count=least, max_count=most),))


def cpu_of(run, cpu):
    return replace(run, demands=(replace(run.demands[0], resources={"cpu": cpu}),))


def test_the_node_that_is_empty_first_is_guarded_from_long_gangs():
    assert closed_nodes(3 * HOUR) == ["n7"]


def test_brief_gangs_may_use_guarded_nodes():
    assert closed_nodes(2 * HOUR) == []


def test_no_node_is_guarded_for_a_gang_that_has_waited_briefly():
    assert closed_nodes(3 * HOUR, now=2 * HOUR - 1) == []
    assert closed_nodes(3 * HOUR, policy=Policy(starvation_guard=0)) == []


@pytest.mark.parametrize(
    ("runs", "queues"),
    [
        (FULL, [Queue("lab"), Queue("default", parent="lab")]),
        ([elastic(FULL[0], 8, 9), *FULL[1:]], []),
        ([replace(FULL[0], priority=-1, preemptible=False), *FULL[1:]], []),
    ],
    ids=["a tree of queues", "an elastic gang", "a gang of lower priority"],
)
def test_nodes_are_guarded_where_gangs_could_be_stopped_as_well(runs, queues):
    long = waiting(21, demand(1), walltime=3 * HOUR)
    snapshot = ledger_of(nodes(10), *runs, WHOLE, long, queues=queues).snapshot()
    assert admitted(schedule(snapshot, 2 * HOUR - 1)) == {"j-21": ("n7",)}
    assert admitted(schedule(snapshot, 2 * HOUR)) == {}


def test_long_gangs_do_not_get_guarded_nodes_by_preemption_either():
    """Nodes that are closed to a gang for which others would be stopped."""
    snapshot = snapshot_of(*HALF_FULL)
    profile = ReservationProfile(snapshot, 2 * HOUR, snapshot.free.copy(order="F"))
    profile.reserve(WHOLE)
    _, closed = profile.conflicts_of(waiting(21, demand(1), walltime=3 * HOUR), 2 * HOUR)
    assert np.flatnonzero(closed).tolist() == [snapshot.table.row["n7"]]
    assert profile.conflicts_of(waiting(21, demand(1), walltime=2 * HOUR), 2 * HOUR)[1] is None


def test_a_gang_that_could_start_elsewhere_keeps_off_guarded_nodes():
    machines = [
        *(node(f"x{n}", 8, zone="x") for n in range(1, 11)),
        *(node(f"y{n}", 8, zone="y") for n in range(1, 11)),
    ]
    there = [running(n, {f"x{n}": 4 if n == 7 else 8}, ends_by=(10 if n == 7 else 30 + n) * HOUR) for n in range(1, 11)]
    others = [running(20 + n, {f"y{n}": 8}, ends_by=50 * HOUR) for n in range(1, 11)]
    first, any_node = (
        waiting(100, demand(1, 8, zone="x"), since=0, walltime=HOUR),
        waiting(101, demand(1), walltime=5 * HOUR),
    )
    plan = schedule(ledger_of(machines, *there, *others, first, any_node).snapshot(), 3 * HOUR)
    assert admitted(plan) == {}


def test_all_waiting_gangs_together_guard_no_more_than_a_tenth():
    """Ten gangs, each of which could use ten nodes more than the one before."""
    machines = [node(f"n{n}", 8, **{f"s{k}": "y" for k in range(1, 11) if n <= 10 * k}) for n in range(1, 101)]
    runs = [running(n, {f"n{n}": 4}, ends_by=(200 - n) * HOUR) for n in range(1, 101)]
    snapshot = ledger_of(machines, *runs).snapshot()
    for policy in (Policy(), Policy(reservations=2), Policy(reservations=-1)):
        profile = ReservationProfile(replace(snapshot, policy=policy), 3 * HOUR, snapshot.free.copy(order="F"))
        for k in range(1, 11):
            profile.reserve(waiting(500 + k, demand(1, 8, **{f"s{k}": "y"}), since=0, walltime=HOUR))
        room = profile.free_for(waiting(700, demand(1), walltime=3 * HOUR))[:, 0]
        assert 0 < (room == 0).sum() <= 10


def test_a_gang_of_one_rack_gets_guarded_nodes_in_its_reserved_rack():
    machines = [node(f"r{r}n{n}", 8, place=(f"r{r}",)) for r in range(5) for n in range(8)]
    runs = [running(8 * r + n, {f"r{r}n{n}": 4}, ends_by=(10 + n) * HOUR) for r in range(5) for n in range(8)]
    rack = replace(demand(3, 8), topology=TopologyRequest("rack"))
    reservation = guarded_nodes_of(
        ledger_of(machines, *runs, levels=("rack",)).snapshot(), waiting(300, rack, since=0, walltime=HOUR)
    )
    assert len(reservation) == 4
    assert len({name[:2] for name in reservation}) == 1


def test_a_gang_with_a_choice_of_models_gets_guarded_nodes_of_the_reserved_one():
    models = {n: "old" if n % 2 else "new" for n in range(1, 21)}
    machines = [node(f"n{n}", 8, **{"gpu-type": model}) for n, model in models.items()]
    runs = [running(n, {f"n{n}": 4}, ends_by=(10 + n) * HOUR) for n in models]
    choosy = replace(demand(2, 8), gpu_types=("new", "old"))
    kept = guarded_nodes_of(ledger_of(machines, *runs).snapshot(), waiting(300, choosy, since=0, walltime=HOUR))
    assert kept == ["n1", "n3"], "the old ones are empty first"


def test_a_gang_without_gpus_gets_guarded_nodes_without():
    machines = [
        *(node(f"g{n}", 8, cpu=64_000) for n in range(1, 11)),
        *(node(f"c{n}", 0, cpu=64_000) for n in range(1, 91)),
    ]
    runs = [cpu_of(running(n, {f"g{n}": 1}, ends_by=(5 + n) * HOUR), 32_000) for n in range(1, 11)]
    runs += [cpu_of(running(100 + n, {f"c{n}": 1}, ends_by=100 * HOUR), 64_000) for n in range(1, 91)]
    plain = replace(demand(1, 0), resources={"cpu": 64_000})
    kept = guarded_nodes_of(ledger_of(machines, *runs).snapshot(), waiting(300, plain, since=0, walltime=HOUR))
    assert {name[0] for name in kept} == {"c"}
    assert len(kept) == 10


def test_a_gang_that_needs_more_than_a_tenth_of_the_nodes_is_not_helped():
    assert closed_nodes(3 * HOUR, blocked=replace(WHOLE, demands=(demand(2, 8),))) == []


@pytest.mark.parametrize("name", ["easy", "conservative", "sjf"])
def test_orders_that_backfill_by_turn_guard_no_node(name):
    assert closed_nodes(3 * HOUR, policy=POLICIES[name]) == []


def test_no_node_is_guarded_before_an_advance_reservation():
    window = Reservation("fans", ("n1",), start=5 * HOUR, end=6 * HOUR)
    assert closed_nodes(3 * HOUR, reservations=[window]) == []


def test_advance_reservations_later_or_of_unusable_nodes_do_not_matter():
    later = Reservation("fans", ("n1",), start=720 * HOUR, end=721 * HOUR)
    elsewhere = Reservation("racks", ("gone",), start=5 * HOUR, end=6 * HOUR)
    assert closed_nodes(3 * HOUR, reservations=[later, elsewhere]) == ["n7"]


def test_an_equal_but_brief_gang_would_get_the_guarded_node():
    snapshot = snapshot_of(*HALF_FULL)
    profile = ReservationProfile(snapshot, 2 * HOUR, snapshot.free.copy(order="F"))
    profile.reserve(WHOLE)
    assert profile.next_shorter_walltime(waiting(21, demand(1, 4), walltime=3 * HOUR)) == 2 * HOUR
    assert profile.next_shorter_walltime(waiting(21, demand(1, 4), walltime=2 * HOUR)) is None


def test_a_plan_starts_only_the_brief_gang_and_names_the_one_ahead():
    long, brief = waiting(21, demand(1), walltime=3 * HOUR), waiting(22, demand(1), walltime=2 * HOUR)
    plan = schedule(snapshot_of(*FULL, WHOLE, long, brief), 2 * HOUR)
    assert admitted(plan) == {"j-22": ("n7",)}
    assert plan.verdicts["j-21"].behind == "j-20"


def test_a_node_is_empty_when_its_last_gang_has_ended():
    runs = [running(1, {"n1": 1, "n2": 1}, ends_by=100), running(2, {"n2": 1}, ends_by=300), running(3, {"n3": 1})]
    snapshot = ledger_of(nodes(4), *runs).snapshot()
    assert ReleaseForecast(snapshot, 0, snapshot.free).last_ends().tolist() == [100, 300, NEVER, 0]
