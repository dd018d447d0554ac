"""What the scheduler decided, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from windlass.core.model.reasons import Verdict
from windlass.core.model.snapshot import Grant
from windlass.core.model.status import Placement


@dataclass(frozen=True, slots=True)
class Admission:
    """This gang starts, whole, here."""

    job_id: str
    placement: Placement
    grant: Grant | None = field(default=None, compare=False, repr=False)
    """What it takes from the nodes of the plan's snapshot; worked out anew if it is not told."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """This running gang is stopped, whole, and waits again at its old place."""

    job_id: str
    by: str
    """The gang that gets its nodes."""
    reason: str
    """In words, for its history: "its queue had borrowed what queue research asks for", …"""


@dataclass(frozen=True, slots=True)
class Resize:
    """This running gang goes on with another number of replicas."""

    job_id: str
    placement: Placement
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What one cycle decided on the snapshot of this `version`.

    A backend checks each placement again before it starts the gang (`core.nodes.binding_check`).
    """

    version: int
    now: int
    admissions: tuple[Admission, ...]
    verdicts: Mapping[str, Verdict]
    """For every gang of the snapshot that stays pending; worked out when it is looked at. Gangs that get equal
    answers share one object, but for the first of them, which alone can have an ETA."""
    preemptions: tuple[Preemption, ...] = ()
    resizes: tuple[Resize, ...] = ()
    order: Sequence[str] = ()
    """The gangs that wait for nodes, next first: a gang's position is its place in here. Gated gangs are not."""
    due: int | None = None
    """When time alone may bring another plan, in ms, always after `now`: a minimum run time is over, a reservation
    begins, … None: only a change does."""
