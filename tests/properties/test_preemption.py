"""The chosen victims suffice, none could be spared, and no cheaper set would do: compared with every subset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from gangs import demand, ledger_of, nodes, running, waiting
from hypothesis import assume, given
from hypothesis import strategies as st

from depth import depth
from windlass.core.ledger import Ledger
from windlass.core.model.gang import PendingGang, RunningGang, total_of
from windlass.core.model.policy import Policy
from windlass.core.model.queue import Queue
from windlass.core.model.snapshot import Snapshot
from windlass.core.nodes.allocation import release_grant
from windlass.core.placement.gang_placement import fits
from windlass.core.preemption.victim_search import Eviction, SearchContext, find_victims
from windlass.core.preemption.victims import BORROWED, VictimCandidates
from windlass.core.queues.fair_share import Shares, can_reclaim_all
from windlass.core.queues.queue_tree import tree_of
from windlass.core.queues.quota import exceeds_available
from windlass.core.queues.usage import QueueUsage

NOW = 1_000
NODES, GPUS = 3, 4
TREE = (Queue("all"), Queue("a", {"gpu": 6}, "all"), Queue("b", {"gpu": 6}, "all"))


@st.composite
def clusters(draw: st.DrawFn, queues: Sequence[str] = ("default",)) -> list[RunningGang]:
    """Gangs of one or two nodes, as many as fit, up to seven."""
    left = dict.fromkeys((f"n{number}" for number in range(1, NODES + 1)), GPUS)
    runs: list[RunningGang] = []
    for number in range(draw(st.integers(1, 7))):
        gpu = draw(st.integers(1, 3))
        where = draw(st.lists(st.sampled_from(sorted(left)), min_size=1, max_size=2))
        if any(left[name] < gpu * where.count(name) for name in where):
            continue
        for name in where:
            left[name] -= gpu
        run = running(number, {name: where.count(name) for name in where}, gpu=gpu, queue=draw(st.sampled_from(queues)))
        rank = {"priority": draw(st.integers(0, 3)), "admitted_at": draw(st.integers(0, 5))}
        runs.append(replace(run, **rank, preemptible=draw(st.sampled_from([True, True, True, False]))))
    return runs


takers = st.builds(
    lambda replicas, gpu, priority: waiting(99, demand(replicas, gpu), priority=priority),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(0, 3),
)


@depth(150)
@given(clusters(), takers)
def test_victims_by_priority_are_the_cheapest_set_from_the_most_costly_down(
    runs: list[RunningGang], gang: PendingGang
) -> None:
    snapshot = ledger_of(nodes(NODES, GPUS), *runs).snapshot()
    assume(not fits(snapshot.free, snapshot.table, gang.demands))
    found = evicted(snapshot, gang)
    order = [run for run in victim_candidates(snapshot).by_cost if run.priority < gang.priority]
    assert chosen(found) == cheapest(snapshot, gang, order)


def cheapest(snapshot: Snapshot, gang: PendingGang, order: Sequence[RunningGang]) -> set[str] | None:
    """The sufficient set whose most costly victim is cheapest, then the next; None: no set suffices."""
    for picked in sorted(product((False, True), repeat=len(order)), key=lambda picked: picked[::-1]):
        names = {run.id for run, pick in zip(order, picked, strict=True) if pick}
        if suffices(snapshot, gang, names):
            return names
    return None


def suffices(snapshot: Snapshot, gang: PendingGang, names: set[str]) -> bool:
    free = snapshot.free.copy(order="F")
    for name in names:
        release_grant(snapshot.table, free, snapshot.grants[name])
    return fits(free, snapshot.table, gang.demands)


@depth(150)
@given(clusters(("a", "b")), takers, st.sampled_from(["a", "b"]))
def test_victims_by_reclaim_are_permitted_and_none_could_be_spared(
    runs: list[RunningGang], gang: PendingGang, queue: str
) -> None:
    gang = replace(gang, queue=queue)
    ledger = ledger_of(nodes(NODES, GPUS), *runs, queues=TREE)
    snapshot = ledger.snapshot()
    assume(
        not fits(snapshot.free, snapshot.table, gang.demands)
        or exceeds_available(usage(snapshot), queue, total_of(gang.demands))
    )
    found = evicted(snapshot, gang)
    if found is None:
        return
    names = chosen(found)
    assert names
    losers = {p.job_id for p in found.preemptions if p.reason.startswith(BORROWED)}
    assert starts(ledger, gang, names)
    assert is_permitted(snapshot, gang, names, losers)
    for name in names:
        left = names - {name}
        assert not (starts(ledger, gang, left) and is_permitted(snapshot, gang, left, losers & left))


def is_permitted(snapshot: Snapshot, gang: PendingGang, names: set[str], losers: set[str]) -> bool:
    """Whether priority allows the victims, and quota those of them (`losers`) whose queue has borrowed."""
    books = usage(snapshot)
    for name in names - losers:
        run = snapshot.running[name]
        assert run.priority < gang.priority
        books.subtract(run.queue, run.user, total_of(run.demands))
    held = [
        (run.queue, run.user, total_of(run.demands)) for run in victim_candidates(snapshot).by_cost if run.id in losers
    ]
    return not held or can_reclaim_all(Shares(books, {}, {}), gang.queue, total_of(gang.demands), held)


def starts(ledger: Ledger, gang: PendingGang, names: set[str]) -> bool:
    """Whether it fits, and quota lets it in, with these gone."""
    trial = Ledger.at(ledger.snapshot())
    for name in names:
        trial.release(name)
    after = trial.snapshot()
    room = fits(after.free, after.table, gang.demands)
    return room and not exceeds_available(usage(after), gang.queue, total_of(gang.demands))


def evicted(snapshot: Snapshot, gang: PendingGang) -> Eviction | None:
    return find_victims(SearchContext(snapshot, NOW, victim_candidates(snapshot), snapshot.free, usage(snapshot)), gang)


def chosen(eviction: Eviction | None) -> set[str] | None:
    return None if eviction is None else {preemption.job_id for preemption in eviction.preemptions}


def victim_candidates(snapshot: Snapshot) -> VictimCandidates:
    return VictimCandidates(replace(snapshot, policy=Policy(min_runtime=0)), NOW, usage(snapshot))


def usage(snapshot: Snapshot) -> QueueUsage:
    return QueueUsage(tree_of(snapshot.queues), snapshot.usage_by_queue, snapshot.usage_by_user)
