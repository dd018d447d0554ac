"""Finds the rank that the others waited for, and what it was doing."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from windlass.diagnose.failures.divergent_operations import group_of
from windlass.diagnose.failures.evidence import Fact
from windlass.diagnose.failures.log_scan import LogFindings

TIMEOUTS = frozenset(
    {
        "nccl-watchdog-timeout",
        "nccl-timeout-of-first-collective",
        "nccl-timeout-within-one-node",
        "gloo-timeout",
    }
)
"""Rules whose messages come from the ranks that waited."""
_ACTIVITIES = (
    (
        re.compile(
            r"checkpoint|sav(?:e|ing)\b.{0,40}(?:state|model|optim|shard|step)|\bckpt\b|torch\.save", re.IGNORECASE
        ),
        "storage-slow-or-hung",
        "saved or loaded a checkpoint",
    ),
    (
        re.compile(
            r"data ?loader|fetch|\bbatch(?:es)?\b.{0,20}(?:load|wait|read)|(?:load|read|download)\w* (?:batch|shard)",
            re.IGNORECASE,
        ),
        "dataloader-stuck",
        "waited for its data loader",
    ),
    (
        re.compile(r"\beval(?:uat\w*)?\b|validation|generat(?:e|ing) samples", re.IGNORECASE),
        "nccl-divergent-collectives",
        "evaluated the model",
    ),
)
"""Last words of a log, the cause that they point to, and what the rank did."""


@dataclass(frozen=True, slots=True)
class Laggard:
    """The rank that did not take part in a collective."""

    rank: int
    reason: str
    """Observation that singles it out."""
    node: str | None = None
    cause: str = ""
    """Slug of the cause that its last line points to; empty where it says nothing."""
    activity: str = ""
    last_line: str = ""
    source: str = ""


def find_laggard(timeouts: Sequence[Fact], logs: Sequence[LogFindings], known: Collection[int]) -> Laggard | None:
    """The one rank that the evidence singles out, or none where several could be it."""
    waiting = {fact.rank for fact in timeouts if fact.rank is not None}
    if (behind := _lowest_sequence(timeouts)) is not None:
        return _described(behind, "it timed out in an earlier collective than the others", logs)
    missing = sorted(set(known) - waiting)
    if len(missing) != 1 or not waiting:
        return None
    return _described(missing[0], "all other ranks report the timeout, it does not", logs)


def _lowest_sequence(timeouts: Sequence[Fact]) -> int | None:
    """The rank that timed out in an earlier collective of the same process group than all others."""
    groups = {group_of(fact) for fact in timeouts}
    numbers: dict[int, int] = {}
    for fact in timeouts:
        if fact.rank is not None and fact.values.get("seq", "").isdecimal():
            numbers.setdefault(fact.rank, int(fact.values["seq"]))
    lowest = min(numbers.values(), default=0)
    behind = [rank for rank, number in numbers.items() if number == lowest]
    return behind[0] if len(behind) == 1 and len(numbers) > 1 and len(groups) == 1 else None


def _described(rank: int, reason: str, logs: Sequence[LogFindings]) -> Laggard:
    own = next((log for log in logs if log.source.rank == rank or rank in log.last_lines), None)
    if own is None:
        return Laggard(rank, reason)
    last = own.last_lines.get(rank) or next((line for line in reversed(own.tail) if line.strip()), "")
    for pattern, cause, activity in _ACTIVITIES:
        if pattern.search(last):
            return Laggard(rank, reason, own.source.node, cause, activity, last.strip(), own.source.name)
    return Laggard(rank, reason, own.source.node, last_line=last.strip(), source=own.source.name)
