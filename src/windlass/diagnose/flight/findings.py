"""Findings of flight recorders: what waits for what, in the values that the texts of rules contain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from windlass.diagnose.flight.process_groups import Calls, ProcessGroup, RankHistory, group_title
from windlass.diagnose.flight.records import FlightEntry, Progress

_MAX_SHAPES = 2
_NO_FRAME = "place unknown"
_PROGRESS = {
    Progress.SCHEDULED: "not completed",
    Progress.STARTED: "started",
    Progress.COMPLETED: "completed",
    Progress.ENDED: "ended",
}


@dataclass(frozen=True, slots=True)
class HangFinding:
    """One finding. `rule`: id of the rule that it fires; `text`: one line, which contains the values."""

    rule: str
    text: str
    values: Mapping[str, str]
    ranks: tuple[int, ...]
    """Ranks that the finding blames."""
    waiting: tuple[int, ...]
    """Ranks that wait."""
    source: str
    """Dump of a rank that waits."""
    time_ns: int
    """Time at which the first of them began to wait; 0 if unknown."""


def describe_group(group: ProcessGroup) -> str:
    """Returns backend and title of a group."""
    return f"{group.title} ({group.backend})"


def describe_place(entry: FlightEntry | None) -> str:
    """Returns the place in the program that called an operation."""
    return str(entry.frame) if entry and entry.frame else _NO_FRAME


def describe_last(history: RankHistory) -> str:
    """Returns the newest operation of a rank, its state, and its place."""
    last = history.last
    if last is None:
        return "none"
    title = group_title(last.group, last.description)
    return f"{last.name} number {last.sequence} of group {title}, {_PROGRESS[last.progress]}, at {describe_place(last)}"


def describe_call(calls: Calls) -> str:
    """Returns the operation of one rank under one number, with the sizes and types of its first tensors."""
    entry = calls[0]
    tensors = entry.inputs if entry.inputs.sizes else entry.outputs
    shapes = [str(list(shape)) for shape in tensors.sizes[:_MAX_SHAPES]]
    kinds = sorted(set(tensors.types))[:_MAX_SHAPES]
    more = [f"and {len(calls) - 1} coalesced"] if len(calls) > 1 else []
    return " ".join([entry.name, *shapes, *kinds, *more])


def describe_stack(history: RankHistory) -> str:
    """Returns the place of a rank in the program when the dump was written."""
    stack = history.dump.stack
    return str(stack.place) if stack and stack.place else "not known"
