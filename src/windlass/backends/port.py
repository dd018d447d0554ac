"""The port between the controller and a world.

The contract, which `tests/contract` checks for every world:
- `commit` is durable when it returns, and comes before the commands of the same turn are performed. After `recover` the
  controller tells again every command whose outcome the recovered states do not show yet.
- Commands are idempotent. A `Launch` is answered by `Started` and then one `MemberExited` per member, in the order
  in which they ended; a member that cannot be started is a `MemberExited` with its reason. A `Stop` is answered by
  exactly one `GangGone`, at once if nothing is alive. A gang whose members all vanished unseen is a `GangGone`
  unasked for.
- No event is lost: one that was returned by `wait` but not yet committed comes again after `recover`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from windlass.backends.errors import BackendError as BackendError  # noqa: PLC0414 - part of the port, told onwards
from windlass.core.lifecycle.commands import Command
from windlass.core.lifecycle.events import Event
from windlass.core.model.job import Job
from windlass.core.model.node import Node, Topology
from windlass.core.model.policy import Policy
from windlass.core.model.queue import Queue
from windlass.core.model.reservation import Reservation
from windlass.core.model.snapshot import PastUsage
from windlass.core.model.status import JobState


@dataclass(frozen=True, slots=True)
class JobEvent:
    """Something happened to one job."""

    job_id: str
    event: Event


@dataclass(frozen=True, slots=True)
class JobArrived:
    """A job was handed in under an id and a number that the world has reserved for it."""

    job_id: str
    number: int
    job: Job


@dataclass(frozen=True, slots=True)
class JobChanged:
    """What a job asks for is this by now. Of a gang that has started it may have to wait for the next start."""

    job_id: str
    job: Job


@dataclass(frozen=True, slots=True)
class ClusterChanged:
    """The nodes or queues are now these. Nodes that are missing are lost."""

    nodes: tuple[Node, ...]
    queues: tuple[Queue, ...]
    topology: Topology = field(default_factory=Topology)
    policy: Policy = field(default_factory=Policy)
    reservations: tuple[Reservation, ...] = ()


WorldEvent: TypeAlias = JobEvent | JobArrived | JobChanged | ClusterChanged


@dataclass(frozen=True, slots=True)
class Transition:
    """One line of a job's history."""

    job_id: str
    at: int
    event: str
    before: str
    after: str
    message: str


@dataclass(frozen=True, slots=True)
class Changes:
    """What one turn of the controller changed, to be made durable as one."""

    states: tuple[JobState, ...] = ()
    """Jobs as they are now; finished ones are in here one last time."""
    transitions: tuple[Transition, ...] = ()
    forgotten: tuple[str, ...] = ()
    commands: tuple[Command, ...] = ()
    """To be performed after this commit."""
    past: Mapping[str, PastUsage] = field(default_factory=dict)
    """By queue that has a half-life: its past use until now. For `Recovery`; only told with other changes."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """What a world knows when a controller starts on it.

    `states` has every job that has not ended, and every ended one whose ttl has still to run out.
    """

    cluster: ClusterChanged
    states: tuple[JobState, ...] = ()
    past: Mapping[str, PastUsage] = field(default_factory=dict)
    """As last committed."""


class Backend(Protocol):
    """See the module's text for the contract."""

    def now(self) -> int:
        """Milliseconds since the Unix epoch; never goes back, not even over a restart."""

    def recover(self) -> Recovery:
        """Take over from whoever controlled this world before."""

    def finished(self, job_id: str) -> JobState | None:
        """A job that has ended, by id, or None. For dependencies on jobs the controller no longer holds."""

    async def wait(self, until: int | None) -> Sequence[WorldEvent]:
        """What happened; returns as soon as there is something, or empty at `until` (ms) or when `wake`d."""

    async def commit(self, changes: Changes) -> None:
        """Make one turn durable. Nothing else is asked of the world meanwhile.

        Raises WorldError if it cannot; nothing of it has happened then.
        """

    def perform(self, commands: Sequence[Command]) -> None:
        """Carry out, without waiting for the outcome."""
