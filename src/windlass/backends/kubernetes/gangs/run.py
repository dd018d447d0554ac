"""One start of a gang as pods: its members, their pods, and the requests made for them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.gangs.run_pods import RunPods
from windlass.backends.members import SETTLING_MS, MemberTracker
from windlass.core.lifecycle.events import Exit
from windlass.core.model.job import Job
from windlass.core.model.status import Placement


@dataclass(frozen=True, slots=True)
class Slot:
    """Slot of one member: `number` counts over the gang, `index` within the role."""

    number: int
    role: str
    index: int
    node: str

    def __str__(self) -> str:
        return f"{self.role}/{self.index} on {self.node}"


def slots(job: Job, placement: Placement) -> Sequence[Slot]:
    """Returns the slot of every member of the gang, in the order of ranks."""
    places = [(role.name, *each) for role in job.roles for each in enumerate(placement.nodes.get(role.name, ()))]
    return tuple(Slot(number, role, index, node) for number, (role, index, node) in enumerate(places))


@dataclass(slots=True)
class Run:
    """A generation of a gang, from its launch until nothing of it is left."""

    generation: int
    slots: Sequence[Slot]
    alone: bool = False
    """Its members restart one by one (`RestartScope.MEMBER`)."""
    settling: int = SETTLING_MS
    ordered: bool = False
    """This controller has received the command to launch it."""
    launched: bool = False
    """Whether every pod has existed: one that is missing from now on is lost."""
    checked: bool = False
    """Whether members without a pod were looked for since `launched`."""
    failed: dict[int, Exit] = field(default_factory=dict)
    """Members that could not be bound, or would have to restart on a node where no pod may start any more."""
    made_by_others: frozenset[int] = frozenset()
    """Members whose pods a launcher's Job creates, some time after the others."""
    failed_launchers: int = 0
    """Pods that have failed by the count of the launcher's Job, which may have deleted them."""
    bound: set[str] = field(default_factory=set)
    """Uids of pods created by others that were bound."""
    restarting: set[int] = field(default_factory=set)
    """Members to be created again, until their next pod exists."""
    replaced: set[str] = field(default_factory=set)
    """Uids of the pods in whose place they are created."""
    container_restarts: int = 0
    """Number of container restarts that was reported last."""
    strays: dict[str, Pod] = field(default_factory=dict)
    """Living pods of earlier generations by uid: a node that was considered lost may return with them."""
    without_image: frozenset[int] = frozenset()
    """Members without an image when the status was last compared."""
    image_due: int = 0
    """Time in ms at which an image pull has failed for too long; 0 if none fails."""
    grace: int = 30
    """Seconds that its pods have to end."""
    cleaned_up_as: bool | None = None
    """Whether its pods were left to end by themselves, when all of them were last considered for deletion."""
    cleaned_up: bool = False
    """Whether the deletion of what an ending job does not keep was requested: ended pods, services without a pod."""
    removing_services: bool = False
    """Whether services are being deleted: the next leader would not know of them once the run is gone."""
    busy: bool = False
    """Whether requests are under way that could still create one of its pods."""
    updating_dependents: bool = False
    """Whether dependent objects are being created: a launcher's Job would create more pods."""
    pods: RunPods = field(init=False)
    tracker: MemberTracker = field(init=False)

    def __post_init__(self) -> None:
        self.pods = RunPods([slot.role for slot in self.slots])
        self.track()

    def track(self, *, started: bool = False, ended: Sequence[int] = ()) -> None:
        """Creates the tracker of the members. `ended`: those whose end was reported before."""
        self.tracker = MemberTracker(
            self.generation, len(self.slots), settling=self.settling, alone=self.alone, started=started, ended=ended
        )

    @property
    def stopping(self) -> bool:
        """Whether its pods are to be deleted."""
        return self.tracker.stopping

    @property
    def must_complete(self) -> bool:
        """False: the pods of a gang that is given up are created again with its next generation."""
        return False

    @property
    def gone(self) -> bool:
        """Whether `GangGone` was reported."""
        return self.tracker.gone

    @property
    def placement(self) -> Placement:
        """The node of each member, by role."""
        nodes: defaultdict[str, list[str]] = defaultdict(list)
        for slot in self.slots:
            nodes[slot.role].append(slot.node)
        return Placement({role: tuple(on) for role, on in nodes.items()})

    @property
    def sizes(self) -> Mapping[str, int]:
        """Replicas by role."""
        return Counter(slot.role for slot in self.slots)
