"""The status of a job: its phase, the history of its failures, and its placement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from windlass.core.model.diagnosed_cause import DiagnosedCause
from windlass.core.model.job import Job


class Phase(StrEnum):
    """The states of a job. The last two are terminal: they have no transitions."""

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
"""Reason of a job that a user ended; its phase is `FAILED`."""


class FailureClass(StrEnum):
    """Cause of the loss of a member. Only `USER` counts against the user limit."""

    INFRASTRUCTURE = "infrastructure"
    PREEMPTION = "preemption"
    USER = "user"


class Target(StrEnum):
    """The transition of a gang that is being stopped, due once its last process has ended."""

    RESTART = "restart"
    """Start again on the same nodes."""
    REQUEUE = "requeue"
    """Release the nodes and wait in the queue again, at the old position."""
    RESIZE = "resize"
    """Start again, larger or smaller, on the placement `Status.resize_to`."""
    SUSPEND = "suspend"
    FAIL = "fail"
    SUCCEED = "succeed"


@dataclass(frozen=True, slots=True)
class Failure:
    """The event that ended a generation."""

    kind: FailureClass
    reason: str
    """One CamelCase word: "ExitCode", "Signal", "NodeLost", "Lost", "WalltimeExceeded", …"""
    message: str
    at: int
    """In ms."""
    member: int | None = None
    exit_code: int | None = None
    signal: int | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """The node of each replica: role name → node names by replica index.

    A name is empty while another scheduler has not placed the replica.
    """

    nodes: Mapping[str, tuple[str, ...]]
    devices: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    """For roles on nodes that share GPUs: the node's devices that each replica holds."""

    def distinct(self) -> tuple[str, ...]:
        """Returns the nodes used, each once, in order of first use."""
        return tuple(dict.fromkeys(name for names in self.nodes.values() for name in names if name))


@dataclass(frozen=True, slots=True)
class Status:
    """The changing part of a job. Times are integer milliseconds; None: not yet."""

    phase: Phase = Phase.CREATED
    reason: str = ""
    message: str = ""
    generation: int = 0
    """Number of starts of the gang, from 1. Every process of a generation carries it; two generations never run
    together. A gang that runs in generation 0 was started by another program, from which it was taken over.
    """
    user_failures: int = 0
    infrastructure_failures: int = 0
    preemptions: int = 0
    recoveries: int = 0
    """Failures that the gang's own agents repaired in place. They also count among those of their class."""
    agent_generation: int = 0
    """Newest known agent generation: the agents' own count of starts, which continues over all generations of the gang.
    """
    backoff_step: int = 0
    """Consecutive failures without a healthy run between them; sets the next backoff. Failed launches are left out."""
    failed_launches: int = 0
    """Consecutive stale placements and withdrawn launches since the gang last ran; sets the backoff after one."""
    created_at: int = 0
    queued_at: int | None = None
    """Time from which the job's age in the queue counts; kept over restarts and preemptions."""
    admitted_at: int | None = None
    """Start of the current allocation."""
    started_at: int | None = None
    """First start since the submission or the last resume."""
    first_admitted_at: int | None = None
    """First admission since the submission or the last resume: the deadline counts from here."""
    launched_at: int | None = None
    """Launch of the current generation: the start timeout counts from here."""
    running_since: int | None = None
    """Time since which all processes of the current generation run."""
    stopping_since: int | None = None
    ended_at: int | None = None
    """Time of the decision that the job ends, from which its time to live counts; its last process may end later."""
    finished_at: int | None = None
    """Time at which an ended job had no process any more."""
    not_before: int | None = None
    """End of the backoff after a failure."""
    placement: Placement | None = None
    resize_to: Placement | None = None
    """Placement of the gang after its resize. While it grows, it already holds this."""
    resized_at: int | None = None
    run_time: int = 0
    """Time, in ms, for which earlier allocations held nodes."""
    service: int = 0
    """Attained GPU time in milli-GPU-ms: of earlier allocations, and of this one up to its last resize."""
    stopped_at: int = 0
    """End, in ms, of the last earlier allocation; 0: there was none."""
    saved_at: int | None = None
    """Time, in ms, of the last checkpoint of this allocation, if the job reports its checkpoints."""
    unevictable_until: int | None = None
    """Time, in ms, until which the gang is not preempted, because its last eviction was refused."""
    target: Target | None = None
    """Set while the gang is being stopped."""
    killed: bool = False
    """A request to end the job without grace has arrived: stops of the gang have no grace period."""
    step: int = 0
    """Step of the job that starts next (`core.model.steps`); the placement shows which one runs."""
    expired: bool = False
    """The time to live was over before the last process had ended: no process is left to end by itself any more."""
    succeeded_members: int = 0
    """Bit set of the members of this generation that succeeded."""
    member_restarts: int = 0
    """Restarts of single members, over all generations."""
    container_restarts: int = 0
    """Restarts of containers in place, by kubelets, in the members that run now."""
    restarting_members: int = 0
    """Bit set of the members of this generation that are to be restarted and do not run again yet."""
    added_members: int = 0
    """Bit set of the members that were added to this generation and have not run yet."""
    grow_after: int | None = None
    """Time, in ms, until which nothing is added to this generation: what was added last could not be started."""
    is_gone: bool = True
    """Whether no process of any generation is alive."""
    avoided_nodes: tuple[str, ...] = ()
    """Nodes on which a member did not start in time; the gang is not placed there before `avoided_until`."""
    avoided_until: int | None = None
    faulty_nodes: tuple[str, ...] = ()
    """Nodes that verdicts on earlier attempts have proven to be bad; the gang is not placed there again."""
    waits_for: tuple[str, ...] = ()
    """Jobs that must end first (`--after`)."""
    last_failure: Failure | None = None
    failed_generation: int = 0
    """Newest generation that has ended by a failure, and of which no process is left."""
    diagnosis: DiagnosedCause | None = None
    """Verdict on the newest attempt that was diagnosed."""

    @property
    def attempts(self) -> int:
        """Number of starts of the gang, for whatever reason; the first start of each further step is none."""
        return max(self.generation - self.step, min(self.generation, 1))


def state_name(status: Status) -> str:
    """Returns the state as users see it: a failed job that was cancelled is "Cancelled"."""
    return CANCELLED if status.phase is Phase.FAILED and status.reason == CANCELLED else status.phase.value


@dataclass(frozen=True, slots=True)
class JobState:
    """A job and its status. `number` is the order of submission, the last tie-break."""

    id: str
    number: int
    job: Job
    status: Status

    @property
    def stop_grace(self) -> int:
        """Milliseconds from SIGTERM to SIGKILL when the gang is stopped."""
        return 0 if self.status.killed else self.job.grace
