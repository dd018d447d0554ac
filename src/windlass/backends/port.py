"""The port between the controller and a backend.

The contract, which `tests/contract` checks for every backend:
- `commit` is durable when it returns, and comes before the commands of the same turn are performed. After `recover` the
  controller repeats every command whose outcome the recovered states do not show yet.
- Commands are idempotent. A `Launch` is answered by `Started` and then one `MemberExited` per member, in the order
  in which they ended; a member that cannot be started is a `MemberExited` with its reason. A `Stop` is answered by
  exactly one `GangGone`, at once if nothing is alive. A gang whose members all
  vanished unobserved is reported as `GangGone` without a `Stop`.
- No event is lost: one that was returned by `wait` but not yet committed comes again after `recover`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from windlass.backends.errors import BackendError as BackendError  # noqa: PLC0414 - part of the port
from windlass.core.lifecycle.commands import Command
from windlass.core.lifecycle.events import Event
from windlass.core.model.job import Job
from windlass.core.model.node import Node, Topology
from windlass.core.model.policy import Policy
from windlass.core.model.queue import PastUsage, Queue
from windlass.core.model.reservation import Reservation
from windlass.core.model.status import JobState


@dataclass(frozen=True, slots=True)
class JobEvent:
    """An event of one job."""

    job_id: str
    event: Event


@dataclass(frozen=True, slots=True)
class JobArrived:
    """A job was submitted under an id and a number that the backend has reserved for it."""

    job_id: str
    number: int
    job: Job


@dataclass(frozen=True, slots=True)
class JobRecovered:
    """A job whose state could not be recovered at the start of the controller can be now."""

    state: JobState


@dataclass(frozen=True, slots=True)
class JobChanged:
    """The description of a job has changed.

    A gang that holds nodes only takes a change that takes nothing from others. `by_cluster`: not its owner but the
    settings of the cluster have changed its queue and priority, so these take effect at once.
    """

    job_id: str
    job: Job
    by_cluster: bool = False


@dataclass(frozen=True, slots=True)
class ClusterChanged:
    """The nodes or queues are now these. Nodes that are missing are lost."""

    nodes: tuple[Node, ...]
    queues: tuple[Queue, ...]
    topology: Topology = field(default_factory=Topology)
    policy: Policy = field(default_factory=Policy)
    reservations: tuple[Reservation, ...] = ()


BackendEvent: TypeAlias = JobEvent | JobArrived | JobRecovered | JobChanged | ClusterChanged


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
    """Changes of one turn of the controller, made durable as one."""

    states: tuple[JobState, ...] = ()
    """Current states; a job that has ended is included one last time."""
    transitions: tuple[Transition, ...] = ()
    forgotten: tuple[str, ...] = ()
    commands: tuple[Command, ...] = ()
    """Commands to perform after this commit."""
    past_usage: Mapping[str, PastUsage] = field(default_factory=dict)
    """Decayed usage up to now of each queue with a half-life, for `Recovery`; only passed with other changes."""
    redescribed: frozenset[str] = frozenset()
    """Jobs of `states` whose description has changed."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """The state of a backend when a controller starts on it.

    `states` has every job that has not ended, and every ended job whose ttl has not expired.
    """

    cluster: ClusterChanged
    states: tuple[JobState, ...] = ()
    past_usage: Mapping[str, PastUsage] = field(default_factory=dict)
    """Decayed usage by queue, as last committed."""


class Backend(Protocol):
    """A backend as the controller uses it; the module's text is the contract."""

    def now(self) -> int:
        """Returns milliseconds since the Unix epoch; never goes back, not even over a restart."""

    def recover(self) -> Recovery:
        """Takes over from the previous controller and returns the recovered state."""

    def finished(self, job_id: str) -> JobState | None:
        """Returns a job that has ended, by id, or None: for dependencies on jobs that the controller has forgotten."""

    async def wait(self, until: int | None) -> Sequence[BackendEvent]:
        """Returns events as soon as there are any; empty at `until` (ms), or after `wake`."""

    async def commit(self, changes: Changes) -> Mapping[str, str]:
        """Makes one turn durable. No other method is called meanwhile.

        Returns the jobs of which nothing could be written while all the rest is durable, each with a reason for users;
        usually none. The controller repeats them later (`backends.deferred_commits`), with their latest state. Events
        of such a job count as not committed until then. Raises BackendError if nothing of the turn could be written.
        """

    def perform(self, commands: Sequence[Command]) -> None:
        """Carries out commands, without waiting for their outcome."""
