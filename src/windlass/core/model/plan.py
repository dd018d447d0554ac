"""A plan: the decisions of one scheduling cycle as data. `core.cycle` makes it, `controller` carries it out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from windlass.core.model.reasons import Verdict
from windlass.core.model.snapshot import Grant
from windlass.core.model.status import Placement


@dataclass(frozen=True, slots=True)
class Admission:
    """Decision to start a whole gang at a placement."""

    job_id: str
    placement: Placement
    grant: Grant | None = field(default=None, compare=False, repr=False)
    """Amounts that it takes from the nodes of the plan's snapshot; None: derived from the placement."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """Decision to stop a whole running gang, which then waits again at its old position."""

    job_id: str
    by: str
    """The gang that gets the nodes."""
    reason: str
    """Text for its history: "its queue had borrowed what queue research asks for", …"""


@dataclass(frozen=True, slots=True)
class Resize:
    """Decision to continue a running gang with another number of replicas."""

    job_id: str
    placement: Placement
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The decisions of one cycle on the snapshot `version`.

    A backend checks each placement again before it starts the gang (`core.nodes.binding_check`).
    """

    version: int
    now: int
    admissions: tuple[Admission, ...]
    verdicts: Mapping[str, Verdict]
    """Verdicts of all gangs of the snapshot that stay pending; computed on access. Gangs with equal answers share one
    object, except for the first of them, which alone can have an ETA.
    """
    preemptions: tuple[Preemption, ...] = ()
    resizes: tuple[Resize, ...] = ()
    missing: Mapping[str, Verdict] = field(default_factory=dict)
    """Verdicts on what running gangs miss of the replicas that their owners request, by id."""
    order: Sequence[str] = ()
    """Gangs that wait for nodes, next first: a gang's position is its index here. Gated gangs are not included."""
    due: int | None = None
    """Time in ms, always after `now`, at which time alone may change the plan: a minimum run time is over, a
    reservation begins, … None: only an event changes it.
    """
