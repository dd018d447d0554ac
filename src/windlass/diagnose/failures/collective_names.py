"""Names the collective in which a rank waited: the frame of torch in the traceback above the message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from windlass.diagnose.failures.evidence import Fact

_FRAME = "collective-in-traceback"
"""Rule of the frames of torch's collectives."""
NAMELESS = frozenset({"gloo-timeout", "gloo-peer-closed"})
"""Rules whose messages do not name the operation."""
_LONGEST_TRACEBACK = 60
"""Lines between a frame and the message of its exception."""


def with_collectives(facts: Sequence[tuple[Fact, int]]) -> list[tuple[Fact, int]]:
    """The facts, with the value `op` where the traceback above a message of gloo tells it."""
    frames = [fact for fact, _ in facts if fact.rule == _FRAME]
    return [(_named(fact, frames) if fact.rule in NAMELESS else fact, signature) for fact, signature in facts]


def _named(fact: Fact, frames: Sequence[Fact]) -> Fact:
    above = [frame for frame in frames if _is_above(frame, fact)]
    if not above:
        return fact
    last = max(above, key=lambda frame: frame.evidence.line)
    return replace(fact, values={**fact.values, "op": last.values["frame"]})


def _is_above(frame: Fact, fact: Fact) -> bool:
    distance = fact.evidence.line - frame.evidence.line
    is_near = frame.evidence.source == fact.evidence.source and 0 < distance <= _LONGEST_TRACEBACK
    return is_near and frame.rank == fact.rank
