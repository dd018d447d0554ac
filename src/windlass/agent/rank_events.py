"""Events of one node's ranks, which an agent reports to the leader or, with WINDLASS_CONTROLLER, to the controller.

A leader in the same process receives the objects; a leader elsewhere and the controller receive messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Union

from windlass import wire

USER, INFRASTRUCTURE = wire.USER, wire.INFRASTRUCTURE
UNCOUNTED = "uncounted"
"""The failure counts against no limit, and ranks are restarted."""
FINAL = "final"
"""The run ends regardless of its limits: a restart cannot help, or the agents' parent processes decide on it."""


class RanksSucceeded(NamedTuple):
    """All ranks of an agent have exited with code 0."""

    agent_id: str
    """The id of the agent; empty if the receiver knows it from the connection."""
    generation: int


class RanksReady(NamedTuple):
    """All ranks of an agent can continue with a new world size and new rank numbers, without a restart."""

    agent_id: str
    generation: int


class RankFailed(NamedTuple):
    """A rank exited with an error, hangs, or could not be started, or the store or fork server was lost."""

    agent_id: str
    generation: int
    code: int
    """The exit code; negative for a signal."""
    reason: str
    charged_to: str = USER
    """`USER`, `INFRASTRUCTURE`, `UNCOUNTED` or `FINAL`: the limit that the failure counts against."""
    hangs: bool = False
    """The rank still exists and cannot take a new membership, so all ranks are stopped."""


class RanksStopped(NamedTuple):
    """No rank of this generation is left at an agent. `code`: the exit code that decides the next action; 0: none."""

    agent_id: str
    generation: int
    code: int = 0


RankEvent = Union[RanksSucceeded, RanksReady, RankFailed, RanksStopped]
EVENT_TYPES: Mapping[str, type[RankEvent]] = {
    "succeeded": RanksSucceeded,
    "ready": RanksReady,
    "failed": RankFailed,
    "stopped": RanksStopped,
}
"""Names of these events in messages."""


def message_of(event: RankEvent) -> dict[str, Any]:
    """The message that reports an event."""
    name = next(name for name, kind in EVENT_TYPES.items() if isinstance(event, kind))
    return {"type": name, **event._asdict()}


def classify_failure(code: int, budget: wire.RestartBudget | None) -> str:
    """The limit that the failure of a rank counts against. `code`: the exit code, negative for a signal; not 0.

    A fatal exit code always ends the run (`FINAL`). With a budget, so does a failure that releases nodes: Windlass,
    which places the gang, decides on it. Without a budget it counts against no limit, and signals count as failures of
    the program, as with torchrun.
    """
    end = (None, -code) if code < 0 else (code, None)
    if budget is None:
        found = wire.classify_end(*end)
        return FINAL if found.fatal else UNCOUNTED if found.requeue else USER
    found = wire.classify_end(*end, retryable=budget.retryable, fatal=budget.fatal)
    if found.fatal or found.requeue:
        return FINAL
    return INFRASTRUCTURE if found.kind == wire.INFRASTRUCTURE else USER
