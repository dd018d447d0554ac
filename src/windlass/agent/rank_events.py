"""Events of the ranks of one node, as an agent reports them to its leader: in its own process, or as messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Union


class RanksSucceeded(NamedTuple):
    """All ranks of an agent have exited with code 0."""

    id: str
    """The agent's; empty where its receiver knows it."""
    generation: int


class RanksReady(NamedTuple):
    """All ranks of an agent can take a new membership while they run."""

    id: str
    generation: int


class RankFailed(NamedTuple):
    """A rank exited with an error, hangs, or could not be started."""

    id: str
    generation: int
    code: int
    """The exit code; negative for a signal."""
    why: str
    whose: str = ""
    """ "machine": it counts as the machine's; "final": whatever is left, the run ends."""
    hangs: bool = False
    """The rank still exists and cannot take a new membership: all ranks are stopped."""


class RanksStopped(NamedTuple):
    """No rank of this generation is left at an agent. `code`: the one that decides what follows, 0 if none does."""

    id: str
    generation: int
    code: int = 0


RankEvent = Union[RanksSucceeded, RanksReady, RankFailed, RanksStopped]
NAMES: Mapping[str, type[RankEvent]] = {
    "succeeded": RanksSucceeded,
    "ready": RanksReady,
    "failed": RankFailed,
    "stopped": RanksStopped,
}
"""The names of these events in messages."""


def message_of(event: RankEvent) -> dict[str, Any]:
    """The message that reports an event."""
    name = next(name for name, kind in NAMES.items() if isinstance(event, kind))
    return {"say": name, **event._asdict()}
