"""Finds a WORLD_SIZE that is larger than the number of ranks that were started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from windlass.diagnose.failures.evidence import Fact
from windlass.diagnose.failures.log_scan import LogFindings

COUNTED, KEYED = "store-clients-missing", "store-key-of-missing-rank"
"""Rules of a store that counts its clients, and of one that names the rank whose key is missing."""
_SEVERAL_NODES = "nccl-spans-nodes"
_LEAST_RANKS = 2
"""Logs of one rank alone do not tell that no other one was started."""


@dataclass(frozen=True, slots=True)
class OversizedWorld:
    """A configured number of ranks above the number that was started."""

    started: int
    detail: str
    """Words of the store that prove it."""
    is_proven: bool
    """Whether the job states the number of its ranks, and not only the logs."""


def find_oversized_world(
    facts: Sequence[Fact], logs: Sequence[LogFindings], expected_ranks: int | None
) -> OversizedWorld | None:
    """The oversized world, or none where a rank that was started may be missing.

    `expected_ranks`: number of ranks that the job has started. Without it, the ranks of the logs count, unless the job
    has several nodes: a node that was not started leaves no log.
    """
    if expected_ranks is None and any(fact.rule == _SEVERAL_NODES for fact in facts):
        return None
    started = expected_ranks or _ranks_without_gap(logs)
    is_proven = expected_ranks is not None
    for fact in facts:
        detail = _detail_of(fact, started)
        if detail and started >= (1 if is_proven else _LEAST_RANKS):
            return OversizedWorld(started, detail, is_proven)
    return None


def have_all_logs_joined(facts: Sequence[Fact], logs: Sequence[LogFindings], expected_ranks: int | None) -> bool:
    """Whether as many processes have joined the store as there are logs, of a job of an unknown number of ranks."""
    counted = {_joined(fact) for fact in facts if fact.rule == COUNTED}
    return expected_ranks is None and len(logs) >= _LEAST_RANKS and counted == {str(len(logs))}


def _joined(fact: Fact) -> str:
    return fact.values.get("joined") or fact.values.get("workers") or ""


def _ranks_without_gap(logs: Sequence[LogFindings]) -> int:
    """The number of ranks that the logs name, if these are the lowest ones; else 0."""
    ranks = {rank for log in logs for rank in log.ranks}
    return len(ranks) if ranks == set(range(len(ranks))) else 0


def _detail_of(fact: Fact, started: int) -> str:
    """The words of the store that prove it: all started ranks joined, or an awaited rank is none of them."""
    values = fact.values
    if fact.rule == COUNTED:
        joined, expected = _joined(fact), values.get("expected") or values.get("world")
        if joined and expected and int(joined) == started < int(expected):
            return f"{joined} of {expected} joined"
    if fact.rule == KEYED:
        missing = values.get("missing") or values.get("missing_rank")
        if missing and int(missing) >= started > 0:
            return f"rank {missing} is awaited"
    return ""
