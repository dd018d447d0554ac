"""The simulated behaviour of a running job, in place of its commands."""

from __future__ import annotations

from dataclasses import dataclass

from windlass.core.lifecycle.events import Exit

SUCCESS = Exit(code=0)


@dataclass(frozen=True, slots=True)
class Script:
    """Behaviour of a gang: all members begin, work and end together, unless a fault hits one. Times in ms."""

    work: int | None
    """Run time at normal speed, at the requested size. None: the gang runs until it is stopped."""
    exit: Exit = SUCCESS
    """Exit of each member when the work is done."""
    obeys_stop: bool = True
    """Whether the gang ends when its stop is requested. If not, it ends when its grace period is over."""
    end_delay: int = 0
    """Time to save and end after a stop was requested."""
    start_error: str = ""
    """The error that prevents the start of its members; "" for none."""


@dataclass(frozen=True, slots=True)
class Delays:
    """Delays of a cluster's reactions, in ms."""

    start: int = 0
    """Time from a launch until every member runs."""
    detect: int = 0
    """Time from a node's failure until it is detected."""
