"""Events of the ranks of one node, as an agent reports them to its leader: in one process, or as messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Union

from windlass import wire

USER, INFRASTRUCTURE = wire.USER, wire.INFRASTRUCTURE
UNCOUNTED = "uncounted"
"""The failure counts against no limit: ranks start again."""
FINAL = "final"
"""The run ends, whatever its limits: another start is useless, or the launcher of the agents decides about it."""


class RanksSucceeded(NamedTuple):
    """All ranks of an agent have exited with code 0."""

    id: str
    """The agent's; empty where the receiver knows it."""
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
    counts_as: str = USER
    """`USER`, `INFRASTRUCTURE`, `UNCOUNTED` or `FINAL`: the limit that the failure counts against."""
    hangs: bool = False
    """The rank still exists and cannot take a new membership, so all ranks are stopped."""


class RanksStopped(NamedTuple):
    """No rank of this generation is left at an agent. `code`: the one that decides what follows; 0 if none does."""

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
"""Names of these events in messages."""


def message_of(event: RankEvent) -> dict[str, Any]:
    """The message that reports an event."""
    name = next(name for name, kind in NAMES.items() if isinstance(event, kind))
    return {"type": name, **event._asdict()}


def failure_limit(code: int, budget: wire.RestartBudget | None) -> str:
    """The limit that a rank's end counts against. `code`: the exit code, negative for a signal; not 0.

    A launcher that gives a budget also places the gang, so ends after which nodes are given back are its to decide.
    Without a launcher they cost nothing, and signals count as failures of the program, as with torchrun.
    """
    end = (None, -code) if code < 0 else (code, None)
    if budget is None:
        found = wire.classify_end(*end)
        return FINAL if found.fatal else UNCOUNTED if found.requeue else USER
    found = wire.classify_end(*end, retryable=budget.retryable, fatal=budget.fatal)
    if found.fatal or found.requeue:
        return FINAL
    return INFRASTRUCTURE if found.kind == wire.INFRASTRUCTURE else USER
