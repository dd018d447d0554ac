"""What a job does when it runs, in place of its commands."""

from __future__ import annotations

from dataclasses import dataclass

from windlass.core.lifecycle.events import Exit

WELL = Exit(code=0)


@dataclass(frozen=True, slots=True)
class Script:
    """All members begin, work and end together, unless a fault befalls one. Times in ms."""

    work: int | None
    """Run time at normal speed, in the size that the job asks for. None: it runs until it is stopped."""
    exit: Exit = WELL
    """How each member ends when the work is done."""
    obeys: bool = True
    """Whether it ends when it is asked to. If not, it ends when its grace is over."""
    leaves_after: int = 0
    """How long it takes to save and leave, once asked."""
    broken: str = ""
    """Why its members cannot even be started; "" if they can."""


@dataclass(frozen=True, slots=True)
class Delays:
    """What a cluster takes for what a controller asks of it, in ms."""

    start: int = 0
    """From a launch until every member runs."""
    detect: int = 0
    """From a node's death until somebody knows of it."""
