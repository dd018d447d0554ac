"""Compares the operations in which ranks timed out: different ones, or one that all ranks had joined."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from windlass.diagnose.failures.evidence import Fact

_GROUP = re.compile(r"\[PG (?:ID \S+ PG GUID )?(?:ID )?(?P<group>[^\s\]]+)")
"""The GUID of a group where there is one: groups of other ranks may have the same ID."""
_ELEMENTS = re.compile(r"\bNumelIn=(?P<elements>\d+)")
_EQUAL_SIZES = frozenset({"ALLREDUCE", "BROADCAST", "REDUCE", "_ALLGATHER_BASE", "_REDUCE_SCATTER_BASE", "BARRIER"})
"""Operations whose input has the same number of elements on all ranks."""
_WHOLE_NODES = frozenset(2**power for power in range(1, 15))
"""Usual numbers of ranks. Of these, ranks from zero on without a gap are taken for all ranks of the job."""


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
        if group_of(one) == group_of(other) and one.rank != other.rank and _differ(one, other)
    ]
    if not pairs:
        return None
    same = [pair for pair in pairs if pair[0].values["seq"] == pair[1].values["seq"]]
    one, other = (same or pairs)[0]
    with_size = one.values["op"] == other.values["op"]
    return Divergence(f"{_operation(one, with_size=with_size)}, {_operation(other, with_size=with_size)}", bool(same))


def is_joined_by_all(timeouts: Sequence[Fact], known: Collection[int]) -> bool:
    """Whether all ranks of the job timed out in one operation: each had entered it, and none had finished it.

    `known`: ranks of which the evidence tells.
    """
    ranks = {fact.rank for fact in timeouts if fact.rank is not None}
    first = {fact.rank: fact for fact in reversed(timeouts)}
    operations = {(group_of(fact), fact.values.get("op"), fact.values.get("seq")) for fact in first.values()}
    is_one = len(operations) == 1 and all(next(iter(operations))[1:])
    return is_one and len(ranks) in _WHOLE_NODES and ranks == set(range(len(ranks))) >= set(known)


def _differ(one: Fact, other: Fact) -> bool:
    """Whether two ranks are in operations of other kinds, or of other sizes under one number."""
    if one.values["op"] != other.values["op"]:
        return True
    is_same = one.values["seq"] == other.values["seq"] and one.values["op"] in _EQUAL_SIZES
    return is_same and len({_elements(one), _elements(other)} - {""}) > 1


def _elements(fact: Fact) -> str:
    match = _ELEMENTS.search(fact.evidence.text)
    return match["elements"] if match else ""


def _operation(fact: Fact, *, with_size: bool) -> str:
    size = f" of {_elements(fact)} elements" if with_size else ""
    return f"rank {fact.rank} waits in {fact.values['op']} number {fact.values['seq']}{size}"
