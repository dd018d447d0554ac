"""Events in the life of a job. Backends and users make them; `core.lifecycle.state_machine` decides their effect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

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
    """The job is known and checked; it may wait its turn."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The job can never run here; `message` says why and what would."""

    message: str


@dataclass(frozen=True, slots=True)
class DependencyEnded:
    """A job that this one waits for has ended, in a way that `satisfied` its condition or not."""

    job_id: str
    satisfied: bool


@dataclass(frozen=True, slots=True)
class Admit:
    """The scheduler's decision: these nodes, now."""

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
    """Why it is taken for lost, where that is not plain."""


@dataclass(frozen=True, slots=True)
class NodeClosed:
    """Nothing new may start on a node: what runs there may end, but no generation begins."""

    node: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """Someone wants the job ended."""

    by: str = ""


@dataclass(frozen=True, slots=True)
class Kill:
    """A request to cancel the job without grace: every process that is left gets SIGKILL."""

    by: str = ""


@dataclass(frozen=True, slots=True)
class Suspend:
    """Someone wants the job off its nodes until it is resumed."""

    by: str = ""


@dataclass(frozen=True, slots=True)
class Resume:
    """Someone wants a suspended job back in the queue."""

    by: str = ""


@dataclass(frozen=True, slots=True)
class Preempt:
    """The scheduler wants the nodes for another gang."""

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
    """The scheduler's third decision: the gang goes on with these nodes, more or fewer than it has."""

    placement: Placement
    message: str


@dataclass(frozen=True, slots=True)
class Saved:
    """The gang has saved all of its work: a restart would lose nothing from before `at` (ms)."""

    generation: int
    at: int


@dataclass(frozen=True, slots=True)
class Recovered:
    """The gang's own agents have put right what would have ended the generation: it goes on."""

    generation: int
    crew: int
    """The generation of the agents' own count that followed; what is heard twice is known by it."""
    exit: Exit
    """What had happened."""
    took: int
    """From then until all ranks ran again, in ms."""


@dataclass(frozen=True, slots=True)
class Timer:
    """Time passed `lifecycle.next_due`."""


Event: TypeAlias = (
    Submitted
    | Refused
    | DependencyEnded
    | Admit
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
    | Saved
    | Recovered
    | Timer
)
