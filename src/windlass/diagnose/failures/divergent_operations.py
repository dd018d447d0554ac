"""Finds ranks that timed out in different operations: they do not call the same collectives in the same order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from windlass.diagnose.failures.evidence import Fact

_GROUP = re.compile(r"\[PG (?:ID )?(?P<group>[^\s\]]+)")


@dataclass(frozen=True, slots=True)
class Divergence:
    """Two ranks of one process group in different operations."""

    text: str
    is_same_number: bool
    """Whether both operations have the same sequence number. Only then is the divergence certain to be the cause."""


def group_of(fact: Fact) -> str:
    """Process group of a timeout, as the line names it; empty where it names none."""
    match = _GROUP.search(fact.evidence.text)
    return match["group"] if match else ""


def find_divergence(timeouts: Sequence[Fact]) -> Divergence | None:
    """Two ranks whose timeouts name different operations of one process group, of one number where there are such."""
    known = [fact for fact in timeouts if fact.rank is not None and fact.values.get("op") and fact.values.get("seq")]
    pairs = [
        (one, other)
        for one in known[:1]
        for other in known
        if group_of(one) == group_of(other) and one.rank != other.rank and one.values["op"] != other.values["op"]
    ]
    if not pairs:
        return None
    same = [pair for pair in pairs if pair[0].values["seq"] == pair[1].values["seq"]]
    one, other = (same or pairs)[0]
    return Divergence(f"{_operation(one)}, {_operation(other)}", bool(same))


def _operation(fact: Fact) -> str:
    return f"rank {fact.rank} waits in {fact.values['op']} number {fact.values['seq']}"
