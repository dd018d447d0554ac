"""Events in the life of a job. Backends and users make them; `core.lifecycle.state_machine` decides their effect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from windlass.core.model.diagnosed_cause import DiagnosedCause
from windlass.core.model.status import Placement
from windlass.wire import EndClass


@dataclass(frozen=True, slots=True)
class Exit:
    """The end of a member. Exactly one of `code`, `signal`, `lost` is set."""

    code: int | None = None
    signal: int | None = None
    lost: bool = False
    """The end was not observed: the node or the process supervisor went away."""
    end_class: EndClass | None = None
    """Class of the end (`core.lifecycle.failure`) where the backend knows more than the code or the signal tells."""
    detail: str = ""
    """The rank and its end as users read them: "rank 3 on n2 killed by SIGKILL"."""

    @property
    def ok(self) -> bool:
        """Whether the member succeeded."""
        return self.code == 0


@dataclass(frozen=True, slots=True)
class Submitted:
    """The job was checked and may queue."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The job can never run here; `message` has the reason, and the largest job that could."""

    message: str


@dataclass(frozen=True, slots=True)
class DependencyEnded:
    """A dependency has ended, or has started if its condition asks for no more. `satisfied`: as the condition asks."""

    job_id: str
    satisfied: bool


@dataclass(frozen=True, slots=True)
class Admit:
    """The scheduler starts the gang on these nodes."""

    placement: Placement


@dataclass(frozen=True, slots=True)
class NotLaunched:
    """The launch of a generation was not performed, because the state of the job could not be written."""

    generation: int
    message: str


@dataclass(frozen=True, slots=True)
class MembersPlaced:
    """Another scheduler has placed members of the generation. A node without a name: that member has none yet."""

    generation: int
    placement: Placement


@dataclass(frozen=True, slots=True)
class Started:
    """Every member of the generation runs."""

    generation: int


@dataclass(frozen=True, slots=True)
class MemberExited:
    """One member (replica) ended; `member` is its gang-wide number."""

    generation: int
    member: int
    exit: Exit
    at: int | None = None
    """Finish time in ms, by the backend's clock. None: unknown."""


@dataclass(frozen=True, slots=True)
class MemberStarted:
    """A member runs again after `RestartMember`. Comes before any later end of it."""

    generation: int
    member: int


@dataclass(frozen=True, slots=True)
class ContainersRestarted:
    """Kubelets have restarted containers of running members in place, `count` times in all of them together."""

    generation: int
    count: int


@dataclass(frozen=True, slots=True)
class GangGone:
    """No process of the generation is left, descendants included."""

    generation: int
    unstarted: tuple[int, ...] = ()
    """Members that never started, if that is known."""


@dataclass(frozen=True, slots=True)
class NodeLost:
    """A node is gone, with all that ran there."""

    node: str
    message: str = ""
    """The reason, if it is not only that the node is gone."""


@dataclass(frozen=True, slots=True)
class NodeClosed:
    """Nothing new may start on a node. Running members go on."""

    node: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """A request to end the job."""

    by: str = ""


@dataclass(frozen=True, slots=True)
class Kill:
    """A request to cancel the job without grace: every process that is left gets SIGKILL."""

    by: str = ""


@dataclass(frozen=True, slots=True)
class Suspend:
    """A request to stop the job until it is resumed."""

    by: str = ""


@dataclass(frozen=True, slots=True)
class Resume:
    """A request to queue a suspended job again."""

    by: str = ""


@dataclass(frozen=True, slots=True)
class Preempt:
    """The scheduler needs the nodes for another gang."""

    message: str


@dataclass(frozen=True, slots=True)
class PreemptionRefused:
    """A gang that is preempted cannot be evicted, for example for a disruption budget, and all of its members run.

    The backend reports it after it has tried for a while, and then stops trying.
    """

    generation: int
    message: str


@dataclass(frozen=True, slots=True)
class Resized:
    """The scheduler gives an elastic gang these nodes, more or fewer than it has."""

    placement: Placement
    message: str


@dataclass(frozen=True, slots=True)
class SpecChanged:
    """The owner has changed the job's spec, which the state has already. It may request fewer replicas than run."""


@dataclass(frozen=True, slots=True)
class Saved:
    """The gang has saved all of its work: a restart loses nothing from before `at` (ms)."""

    generation: int
    at: int


@dataclass(frozen=True, slots=True)
class Recovered:
    """The gang's agents have recovered from a failure; the generation goes on."""

    generation: int
    agent_generation: int
    """Generation of the agents' rendezvous that followed; repeated reports have the same."""
    exit: Exit
    """The failure."""
    took: int
    """Time from the failure until all ranks ran again, in ms."""


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """The diagnosis of a failed attempt has ended. It may come after the job's end, or during the next attempt."""

    cause: DiagnosedCause


@dataclass(frozen=True, slots=True)
class Timer:
    """The time `state_machine.next_due` has passed."""


Event: TypeAlias = (
    Submitted
    | Refused
    | DependencyEnded
    | Admit
    | NotLaunched
    | MembersPlaced
    | Started
    | MemberExited
    | MemberStarted
    | ContainersRestarted
    | GangGone
    | NodeLost
    | NodeClosed
    | Cancel
    | Kill
    | Suspend
    | Resume
    | Preempt
    | PreemptionRefused
    | Resized
    | SpecChanged
    | Saved
    | Recovered
    | Diagnosed
    | Timer
)
