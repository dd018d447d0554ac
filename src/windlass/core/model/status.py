"""What has happened to a job so far: the changing half of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from windlass.core.model.job import Job


class Phase(StrEnum):
    """The states of a job's life. The last two are terminal: nothing leaves them."""

    CREATED = "Created"
    QUEUED = "Queued"
    ADMITTED = "Admitted"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


TERMINAL = frozenset({Phase.SUCCEEDED, Phase.FAILED})
HOLDING = frozenset({Phase.ADMITTED, Phase.RUNNING, Phase.RESTARTING})
"""Phases in which a job may hold nodes."""
CANCELLED = "Cancelled"
"""The reason of a job that somebody ended; by the lifecycle it has failed."""


class FailureClass(StrEnum):
    """Whose fault a lost member was. Only `user` consumes the user limit."""

    INFRASTRUCTURE = "infrastructure"
    PREEMPTION = "preemption"
    USER = "user"


class Target(StrEnum):
    """What a gang that is being stopped becomes once its last process is gone."""

    RESTART = "restart"
    """Start again on the same nodes."""
    REQUEUE = "requeue"
    """Give the nodes back and wait in the queue again, at the old place."""
    RESIZE = "resize"
    """Start again, larger or smaller, where `Status.resize_to` says."""
    SUSPEND = "suspend"
    FAIL = "fail"
    SUCCEED = "succeed"


@dataclass(frozen=True, slots=True)
class Failure:
    """The event that ended a generation, as people will read it."""

    kind: FailureClass
    reason: str
    """One CamelCase word: "ExitCode", "Signal", "NodeLost", "Lost", "WalltimeExceeded", …"""
    message: str
    at: int
    member: int | None = None
    exit_code: int | None = None
    signal: int | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """Which node each replica is on: role name → node names by replica index."""

    nodes: Mapping[str, tuple[str, ...]]
    devices: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    """For roles on nodes that share GPUs: which of the node's devices each replica has."""

    def distinct(self) -> tuple[str, ...]:
        """The nodes used, each once, in order of first use."""
        return tuple(dict.fromkeys(name for names in self.nodes.values() for name in names))


@dataclass(frozen=True, slots=True)
class Status:
    """Times are integer milliseconds; None means that it has not happened."""

    phase: Phase = Phase.CREATED
    reason: str = ""
    message: str = ""
    generation: int = 0
    """Counts starts of the gang, from 1. Every process of a generation carries it; two never live together."""
    user_failures: int = 0
    infrastructure_failures: int = 0
    preemptions: int = 0
    recoveries: int = 0
    """Failures that the gang's own agents have put right in place. They count among those of their class as well."""
    crew: int = 0
    """The newest generation of the agents' own count that was heard of: theirs goes on over all of ours."""
    backoff_step: int = 0
    """Failures in a row without a healthy run between them; sets the next backoff."""
    created_at: int = 0
    queued_at: int | None = None
    """Since when the job waits, for its place by age; kept over restarts and preemptions."""
    admitted_at: int | None = None
    """Start of the current allocation."""
    started_at: int | None = None
    """First start of all, since the submission or the last resume."""
    first_admitted_at: int | None = None
    """First admission since the submission or the last resume: the deadline counts from here."""
    launched_at: int | None = None
    """Launch of the current generation: the start timeout counts from here."""
    running_since: int | None = None
    """Start of the current generation."""
    stopping_since: int | None = None
    finished_at: int | None = None
    not_before: int | None = None
    """End of the backoff."""
    placement: Placement | None = None
    resize_to: Placement | None = None
    """What the gang has once it has been resized. While it grows it holds this already."""
    resized_at: int | None = None
    served: int = 0
    """How long it has held nodes in earlier allocations, in ms."""
    stopped_at: int = 0
    """When the last of these ended, in ms."""
    saved_at: int | None = None
    """When this allocation last saved all of its work, if it tells."""
    target: Target | None = None
    """Set while the gang is being stopped."""
    killed: bool = False
    """A request to end the job without grace has come: stops of the gang have none."""
    done: int = 0
    """Bit set of the members of this generation that ended well."""
    member_restarts: int = 0
    """Restarts of single members, over all generations."""
    container_restarts: int = 0
    """Restarts of containers in place, by kubelets, in the members that run now."""
    restarting: int = 0
    """Bit set of the members of this generation whose restart is decided and that do not run again yet."""
    gone: bool = True
    """No process of any generation is alive."""
    avoid: tuple[str, ...] = ()
    """Nodes on which a member did not start in time; the gang is not placed there before `avoid_until`."""
    avoid_until: int | None = None
    waits_for: tuple[str, ...] = ()
    """Jobs that must end first (`--after`)."""
    last_failure: Failure | None = None

    @property
    def attempts(self) -> int:
        """How often the gang was started: the honest number, whatever the reason."""
        return self.generation


def called(status: Status) -> str:
    """What people call its state: a job that failed because somebody cancelled it is cancelled."""
    return CANCELLED if status.phase is Phase.FAILED and status.reason == CANCELLED else status.phase.value


@dataclass(frozen=True, slots=True)
class JobState:
    """A job and everything known of it. `number` is the order of submission, the last tie-break."""

    id: str
    number: int
    job: Job
    status: Status

    @property
    def stop_grace(self) -> int:
        """Milliseconds from SIGTERM to SIGKILL when the gang is stopped."""
        return 0 if self.status.killed else self.job.grace
