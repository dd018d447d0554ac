"""Of ten nodes one is kept for who has waited long; the others' gaps are as they were."""

from dataclasses import replace

import pytest
from gangs import admitted, demand, ledger_of, nodes, running, waiting

from windlass.core.forecast import NEVER, Forecast
from windlass.core.policy import POLICIES, Policy
from windlass.core.reservation import Reservation
from windlass.core.scheduler import schedule
from windlass.core.timetable import Timetable

HOUR = 3_600_000
HALF_FULL = [running(n, {f"n{n}": 4}, ends_by=(10 if n == 7 else 30 + n) * HOUR) for n in range(1, 11)]
"""Ten nodes with 4 GPUs free each; n7 is the first to be empty, in ten hours at the latest."""
WHOLE = waiting(20, demand(1, 8), since=0, walltime=HOUR)
"""It needs a node for itself."""


def snapshot_of(*gangs, policy=None, reservations=()):
    snapshot = ledger_of(nodes(10), *gangs).snapshot()
    return replace(snapshot, policy=policy or Policy(), reservations=tuple(reservations))


def kept_from(walltime, *, blocked=WHOLE, now=2 * HOUR, fills=True, **more):
    """The nodes on which a gang of one GPU may not start behind one that waits."""
    snapshot = snapshot_of(*HALF_FULL, **more)
    table = Timetable(snapshot, now, snapshot.free.copy(order="F"))
    table.reserve(blocked)
    if fills:
        table.fill()
    room = table.room(waiting(21, demand(1), walltime=walltime))[:, 0].tolist()
    return [node.name for node, free in zip(snapshot.table.nodes, room, strict=True) if free == 0]


def test_the_node_that_is_empty_first_is_kept_from_who_lasts():
    assert kept_from(3 * HOUR) == ["n7"]


def test_who_is_brief_may_use_it():
    assert kept_from(2 * HOUR) == []


def test_who_has_waited_for_a_moment_is_passed_by_whoever_ends_in_time():
    assert kept_from(3 * HOUR, now=2 * HOUR - 1) == []
    assert kept_from(3 * HOUR, policy=Policy(patience=0)) == []


def test_it_is_kept_from_those_who_fill_gaps_not_from_those_whose_turn_it_is():
    assert kept_from(3 * HOUR, fills=False) == []


def test_who_needs_more_than_a_tenth_of_the_nodes_is_not_helped_by_it():
    assert kept_from(3 * HOUR, blocked=replace(WHOLE, demands=(demand(2, 8),))) == []


@pytest.mark.parametrize("name", ["easy", "conservative", "sjf"])
def test_orders_that_fill_gaps_by_turn_keep_to_their_promises(name):
    assert kept_from(3 * HOUR, policy=POLICIES[name]) == []


def test_nothing_is_kept_for_a_gang_that_may_have_to_wait_for_an_appointed_day():
    window = Reservation("fans", ("n1",), start=20 * HOUR, end=30 * HOUR)
    assert kept_from(3 * HOUR, reservations=[window]) == []


def test_an_equal_gang_that_were_brief_would_get_there():
    snapshot = snapshot_of(*HALF_FULL)
    table = Timetable(snapshot, 2 * HOUR, snapshot.free.copy(order="F"))
    table.reserve(WHOLE)
    table.fill()
    assert table.shorter(waiting(21, demand(1, 4), walltime=3 * HOUR)) == 2 * HOUR
    assert table.shorter(waiting(21, demand(1, 4), walltime=2 * HOUR)) is None


def test_a_plan_lets_only_the_brief_one_in_and_tells_the_other_who_goes_first():
    full = [running(n, {f"n{n}": 4 if n == 7 else 8}, ends_by=(10 if n == 7 else 30 + n) * HOUR) for n in range(1, 11)]
    long, brief = waiting(21, demand(1), walltime=3 * HOUR), waiting(22, demand(1), walltime=2 * HOUR)
    plan = schedule(snapshot_of(*full, WHOLE, long, brief), 2 * HOUR)
    assert admitted(plan) == {"j-22": ("n7",)}
    assert plan.verdicts["j-21"].behind == "j-20"


def test_a_node_is_empty_when_the_last_one_has_left_it():
    runs = [running(1, {"n1": 1, "n2": 1}, ends_by=100), running(2, {"n2": 1}, ends_by=300), running(3, {"n3": 1})]
    snapshot = ledger_of(nodes(4), *runs).snapshot()
    assert Forecast(snapshot, 0, snapshot.free).last_ends().tolist() == [100, 300, NEVER, 0]
