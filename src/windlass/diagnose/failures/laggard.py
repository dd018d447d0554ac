"""Finds the ranks that the others waited for, and what they were doing."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from windlass.diagnose.diagnosis import EvidenceLine
from windlass.diagnose.failures.divergent_operations import group_of
from windlass.diagnose.failures.evidence import Fact
from windlass.diagnose.failures.failure_rules import LOST_PEERS, TIMEOUTS
from windlass.diagnose.failures.line_prefix import read_prefixes
from windlass.diagnose.failures.log_scan import LogFindings
from windlass.diagnose.failures.work_numbers import LateWork, find_late_work

WORK_NUMBERS = "nccl-watchdog-consequence"
"""Rule of the messages that state the work of a rank."""
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
    """The ranks that did not take part in a collective, mostly one."""

    ranks: tuple[int, ...]
    reason: str
    """Observation that singles them out."""
    node: str | None = None
    cause: str = ""
    """Slug of the cause that the last line points to; empty where it says nothing."""
    activity: str = ""
    evidence: Sequence[EvidenceLine] = ()
    """Lines that tell of these ranks: their work, and the last line of a single one."""
    is_proven: bool = False
    """Whether numbers of all ranks prove it, and not the absence of a message."""
    has_ended: bool = False
    """Whether the others lost their connections to it, so that it ended before them."""

    @property
    def rank(self) -> int | None:
        """The rank, where it is one."""
        return self.ranks[0] if len(self.ranks) == 1 else None


def find_laggard(facts: Sequence[Fact], logs: Sequence[LogFindings], known: Collection[int]) -> Laggard | None:
    """The ranks that the evidence singles out, or none where others could be meant.

    `known`: ranks of which the evidence tells.
    """
    timeouts = [fact for fact in facts if fact.rule in TIMEOUTS]
    if late := find_late_work([fact for fact in facts if fact.rule == WORK_NUMBERS]):
        return _behind_in_work(late, logs)
    if (behind := _lowest_sequence(timeouts)) is not None:
        return _described(behind, "it timed out in an earlier collective than the others", logs)
    if timeouts:
        silent = _only_other(timeouts, known)
        reason = "all other ranks report the timeout, it does not"
        return None if silent is None else _described(silent, reason, logs)
    ended = _only_other([fact for fact in facts if fact.rule in LOST_PEERS], known)
    if ended is None:
        return None
    found = _described(ended, "all other ranks lost a connection, and it reports no loss", logs)
    return replace(found, cause="", activity="", has_ended=True)


def _behind_in_work(late: LateWork, logs: Sequence[LogFindings]) -> Laggard:
    whose = "its" if len(late.ranks) == 1 else "their"
    reason = f"{whose} last enqueued work is number {late.enqueued}, and the others wait for number {late.awaited}"
    if len(late.ranks) > 1:
        return Laggard(late.ranks, reason, evidence=(late.evidence,), is_proven=True)
    found = _described(late.ranks[0], reason, logs)
    more = [line for line in found.evidence if line.text != late.evidence.text]
    return replace(found, evidence=(late.evidence, *more), is_proven=True)


def _only_other(facts: Sequence[Fact], known: Collection[int]) -> int | None:
    """The one known rank of which none of these facts tells."""
    reporters = {fact.rank for fact in facts if fact.rank is not None}
    others = sorted(set(known) - reporters)
    return others[0] if len(others) == 1 and reporters else None


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
        return Laggard((rank,), reason)
    last = _last_line(rank, own)
    shown = (EvidenceLine(own.source.name, 0, last.strip()),) if last.strip() else ()
    for pattern, cause, activity in _ACTIVITIES:
        if pattern.search(last):
            return Laggard((rank,), reason, own.source.node, cause, activity, shown)
    return Laggard((rank,), reason, own.source.node, evidence=shown)


def _last_line(rank: int, log: LogFindings) -> str:
    return log.last_lines.get(rank) or next((line for line in reversed(log.tail) if line.strip()), "")


def last_words(rank: int, logs: Sequence[LogFindings], ends: Collection[str]) -> str:
    """The last line of a rank, without its prefixes, in that of its logs that ends last; "" if it has no log.

    `ends`: lines in which a launcher or the backend reports the end, which the rank did not write.
    """
    own = [log for log in logs if log.source.rank == rank or rank in log.last_lines]
    lines = [read_prefixes(line) for log in own if (line := _last_line(rank, log)) and line.strip() not in ends]
    return max(lines, key=lambda line: line.time or 0).message.strip() if lines else ""
