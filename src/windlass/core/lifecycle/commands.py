"""Commands of the lifecycle to a backend. Each may be performed twice without harm."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from windlass.core.model.status import Placement


@dataclass(frozen=True, slots=True)
class Launch:
    """Command to start every member of this generation, on these nodes."""

    job_id: str
    generation: int
    placement: Placement
    is_repeated: bool = field(default=False, compare=False)
    """An earlier controller has decided it, and may have performed it."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Command to send SIGTERM to every process of this generation, SIGKILL after `grace` ms; answered by GangGone."""

    job_id: str
    generation: int
    grace: int


@dataclass(frozen=True, slots=True)
class RestartMember:
    """Command to start one member of the generation again, on its node; answered by MemberStarted."""

    job_id: str
    generation: int
    member: int


@dataclass(frozen=True, slots=True)
class Rescale:
    """Command to go on with these members: to end those beyond the placement. Others follow as `RestartMember`."""

    job_id: str
    generation: int
    placement: Placement


@dataclass(frozen=True, slots=True)
class Forget:
    """Command to remove the job's record and logs."""

    job_id: str


Command: TypeAlias = Launch | Stop | RestartMember | Rescale | Forget
