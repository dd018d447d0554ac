"""The place at which each rank was when its flight recorder or its stack was written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from windlass.diagnose.flight.findings import describe_place
from windlass.diagnose.flight.process_groups import group_title
from windlass.diagnose.flight.records import FlightDump, FlightEntry, RankStack

_NS_PER_MS = 1_000_000


class RankPlace(NamedTuple):
    """An operation that a rank had called and that was not completed, or else a place in its program."""

    text: str
    written_ms: int
    """Time at which the file was written, in milliseconds since the epoch."""


def find_places(dumps: Iterable[FlightDump], stacks: Mapping[int, RankStack]) -> dict[int, RankPlace]:
    """Returns the place of each rank that has one."""
    found = {rank: _place_of_stack(stack) for rank, stack in stacks.items() if stack.frames}
    for dump in dumps:
        pending = next((entry for entry in reversed(dump.entries) if entry.progress.is_pending), None)
        if pending is not None:
            found[dump.rank] = RankPlace(_describe(pending), dump.written_ns // _NS_PER_MS)
    return found


def _place_of_stack(stack: RankStack) -> RankPlace:
    return RankPlace(stack.shown_place, stack.written_ns // _NS_PER_MS)


def _describe(entry: FlightEntry) -> str:
    title = group_title(entry.group, entry.description)
    return f"{entry.name} number {entry.sequence} of group {title}, called at {describe_place(entry)}"
