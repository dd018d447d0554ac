"""Compares the work that NCCL's watchdog of each rank has enqueued and completed, and finds the ranks that lag."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from windlass.diagnose.diagnosis import EvidenceLine
from windlass.diagnose.failures.divergent_operations import group_of
from windlass.diagnose.failures.evidence import Fact


@dataclass(frozen=True, slots=True)
class LateWork:
    """Ranks that have not enqueued the work that others of their process group wait for."""

    ranks: tuple[int, ...]
    enqueued: int
    """The last number that the most advanced of these ranks has enqueued."""
    awaited: int
    """The number that the other ranks wait for."""
    waiting: frozenset[int]
    evidence: EvidenceLine


@dataclass(frozen=True, slots=True)
class _Work:
    enqueued: int
    completed: int
    evidence: EvidenceLine


def find_late_work(facts: Sequence[Fact]) -> LateWork | None:
    """The ranks that lag by these messages of the watchdog, or none where the groups name different ones.

    A rank that lags in one group because it waits in another one is left out.
    """
    found = [late for works in _by_group(facts).values() if (late := _compare(works))]
    waiting = frozenset[int]().union(*(each.waiting for each in found))
    roots = [each for each in found if not waiting & set(each.ranks)]
    return roots[0] if len({each.ranks for each in roots}) == 1 else None


def _by_group(facts: Sequence[Fact]) -> Mapping[str, dict[int, _Work]]:
    """The newest numbers of each rank, by process group."""
    groups: dict[str, dict[int, _Work]] = defaultdict(dict)
    for fact in facts:
        work, ranks = _work_of(fact), groups[group_of(fact)]
        if work and fact.rank is not None and (fact.rank not in ranks or work.enqueued >= ranks[fact.rank].enqueued):
            ranks[fact.rank] = work
    return groups


def _work_of(fact: Fact) -> _Work | None:
    try:
        return _Work(int(fact.values["enqueued"]), int(fact.values["completed"]), fact.evidence)
    except (KeyError, ValueError):
        return None


def _compare(works: Mapping[int, _Work]) -> LateWork | None:
    """The ranks of one group whose last enqueued work precedes the work that the others wait for."""
    lowest = min((work.enqueued for work in works.values()), default=0)
    ahead = {rank: work for rank, work in works.items() if work.enqueued > lowest}
    if not ahead:
        return None
    awaited = min(work.completed for work in ahead.values()) + 1
    late = {rank: work for rank, work in works.items() if work.enqueued < awaited}
    if not late:
        return None
    last = max(late.values(), key=lambda work: work.enqueued)
    return LateWork(tuple(sorted(late)), last.enqueued, awaited, frozenset(works.keys() - late.keys()), last.evidence)
