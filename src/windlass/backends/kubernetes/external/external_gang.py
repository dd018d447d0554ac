"""A gang of pods that another controller has created: its pods as they were gathered, and its allocation of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from windlass.backends.kubernetes.client.object_reference import ObjectReference
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.client.resources import PODS
from windlass.backends.kubernetes.pods.pod_ends import end_of
from windlass.backends.members import MemberTracker
from windlass.core.lifecycle.events import Cancel, Event, Exit, GangGone
from windlass.core.model.job import Job
from windlass.core.model.status import JobState, Placement, Status
from windlass.jobs.kubernetes.bounded_integers import MAX_INT32
from windlass.jobs.kubernetes.external import gang_assembly
from windlass.jobs.kubernetes.external.membership import GangKey, controller
from windlass.wire import USER, EndClass

_POD_FAILED = EndClass("PodFailed", USER, fatal=True)


@dataclass(slots=True)
class Allocation:
    """Nodes of a gang, from their choice until no pod of the gang is left on them."""

    generation: int
    nodes: Sequence[str]
    """Node of each pod."""
    bound: set[int] = field(default_factory=set)
    """Members known to be bound; the watch may not have reported it yet."""
    whole: bool = False
    """All members were bound."""
    failed: dict[int, Exit] = field(default_factory=dict)
    """Members that could not be bound, with the reason."""
    stale: bool = False
    """Its nodes had changed before any pod was bound: the gang waits in the queue again."""
    started: bool = False
    """The gang had started under an earlier controller."""
    left_alone: bool = False
    """It ends for the controller only: its living pods continue, and pods that are not bound are gathered again."""
    handed_over: bool = False
    """From now on its resources count as foreign usage."""
    grace: int = MAX_INT32
    """Most seconds that its pods have to end when it is stopped."""
    emptied: bool = False
    """Deletion was requested for every pod that existed when it was stopped."""
    busy: int = 0
    """Number of tasks that are binding its pods."""
    rebound: set[int] = field(default_factory=set)
    """Members whose bindings have changed since they were last observed."""
    given_up: set[int] = field(default_factory=set)
    """Members whose late pods could not be bound and have not been released from the gang yet."""
    ends: dict[int, Exit | None] = field(default_factory=dict)
    """Ends of members; None for a pod that was deleted before it ended."""
    cancelled: bool = False
    """Its end was reported as a cancellation: all of its pods were deleted."""
    closed: set[int] = field(default_factory=set)
    """Members whose places no later pod may take."""
    tracker: MemberTracker = field(init=False)

    def __post_init__(self) -> None:
        self.tracker = MemberTracker(self.generation, len(self.nodes), settling=0, started=self.started)

    @property
    def stopping(self) -> bool:
        """Whether its pods are to be deleted."""
        return self.tracker.stopping

    @property
    def must_complete(self) -> bool:
        """Whether some pods are bound: if they were given up, plain pods would not be created again."""
        return bool(self.bound)

    @property
    def gone(self) -> bool:
        """Whether `GangGone` was reported."""
        return self.tracker.gone

    @property
    def is_held(self) -> bool:
        """Whether the controller accounts for its resources."""
        return not (self.gone or self.handed_over)

    def observe(self, number: int, pod: Pod | None) -> None:
        """Reports a pod to the tracker; None: it is gone. The end of one pod does not end the gang by itself."""
        if self.whole and has_begun(pod):
            self.tracker.start(number)
        if self._is_here(number, pod):
            self.tracker.appear(number)
            self.ends.pop(number, None)
        else:
            self.tracker.leave(number)
            if has_ended(pod) and not self.ends.get(number):
                self.ends[number] = None if pod is None or _was_stopped(pod) else end_of(pod)

    def take_events(self) -> list[Event]:
        """Returns the events that follow from what was observed; none while pods are being bound.

        The owner of the pods decides what follows their ends. So the gang ends when no pod is left, and neither one
        that has failed nor one that was stopped is queued again: pods that its owner creates next are another gang. A
        gang of which no pod was bound, because its nodes had changed, is queued again.
        """
        if self.busy:
            return []
        if self.stopping:
            if self.left_alone:
                self.tracker.vanish()
        elif self.failed:
            self.tracker.fail(*next(iter(self.failed.items())))
        elif self.whole and not self.tracker.alive:
            if not any(self.ends.values()):
                return self._cancel()
            self.tracker.conclude(self._outcome())
        events = self.tracker.take_events(0)
        ends = any(isinstance(each, GangGone) for each in events) and not self.stale
        return [*events, Cancel("the end of its pods")] if ends else events

    def _cancel(self) -> list[Event]:
        events = [] if self.cancelled else [*self.tracker.take_events(0), Cancel("the deletion of its pods")]
        self.cancelled = True
        return events

    def _outcome(self) -> Exit:
        """The failure of a pod, whatever its class: its owner restarts it, not the core. Else a success."""
        failed = next((end for end in self.ends.values() if end is not None and not end.ok), None)
        if failed is None:
            return Exit(code=0)
        return Exit(code=failed.code or 1, end_class=_POD_FAILED, detail=failed.detail)

    def _is_here(self, number: int, pod: Pod | None) -> bool:
        """Tells whether a pod is on the node that was chosen for it, and has not ended."""
        if pod is None or pod.status.has_ended:
            return False
        on = pod.spec.node_name
        return on == self.nodes[number] if on else number in self.bound


@dataclass(slots=True)
class ExternalGang:
    """A gang as the backend knows it. `status` was committed last."""

    id: str
    name: str
    """Name within its namespace."""
    number: int
    member: GangKey
    job: Job
    pods: list[Pod]
    """Pods as they were gathered, in the order of members."""
    gathered: gang_assembly.AssembledGang[Pod] | None = None
    """The gang as it was gathered, before its names were resolved in the cluster."""
    status: Status = field(default_factory=Status)
    allocation: Allocation | None = None
    cancelled: bool = False
    """Its end before its start was reported."""
    now: list[Pod | None] = field(init=False)
    """Pods as they are at present; None: gone."""
    changed: set[int] = field(default_factory=set)
    """Members whose pods have changed since the last look."""
    ended: set[int] = field(init=False)
    """Members whose pods have ended or are gone."""
    _not_waiting: set[int] = field(init=False)
    """Members whose pods no longer wait for a node."""
    _numbers: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.now = [*self.pods]
        self._numbers = {pod.metadata.uid: number for number, pod in enumerate(self.pods)}
        self.ended = {number for number, pod in enumerate(self.pods) if has_ended(pod)}
        self._not_waiting = {number for number, pod in enumerate(self.pods) if not waits(pod)}

    def number_of(self, uid: str) -> int:
        """Returns the member number of a pod."""
        return self._numbers[uid]

    def see(self, uid: str, pod: Pod | None) -> None:
        """Records the present state of one of its pods; None: it is gone."""
        number = self._numbers[uid]
        self.now[number] = pod
        self.changed.add(number)
        _set(self.ended, number, has_ended(pod))
        _set(self._not_waiting, number, not waits(pod))
        if self.allocation is not None:
            self.allocation.observe(number, pod)

    def replace(self, number: int, pod: Pod) -> None:
        """Replaces the pod of a member."""
        del self._numbers[self.pods[number].metadata.uid]
        self.pods[number] = pod
        self._numbers[pod.metadata.uid] = number
        self.see(pod.metadata.uid, pod)

    def observe_all(self) -> None:
        """Reports every pod to the tracker of its allocation. The cost is proportional to the size of the gang."""
        for number, pod in enumerate(self.now):
            if self.allocation is not None:
                self.allocation.observe(number, pod)

    def living(self, numbers: Iterable[int] | None = None) -> Iterator[Pod]:
        """Yields the pods of these members, or of all, that are alive on the nodes chosen for them."""
        alive = self.allocation.tracker.alive if self.allocation is not None else ()
        for number in sorted(alive) if numbers is None else numbers:
            if number in alive and (pod := self.now[number]) is not None:
                yield pod

    def take_events(self) -> list[Event]:
        """Returns the events that follow from the states of its pods, each once."""
        if (allocation := self.allocation) is not None:
            events = allocation.take_events()
            self.allocation = None if allocation.gone and allocation.stale else allocation
            return events
        if self.cancelled or not self._not_waiting:
            return []
        self.cancelled = True
        return [Cancel("a change of its pods")]

    @property
    def is_leaving(self) -> bool:
        """Whether it is about to end for the controller, although its pods may still exist."""
        if self.allocation is None:
            return self.cancelled or bool(self._not_waiting)
        return self.allocation.stopping or bool(self.allocation.failed)

    @property
    def has_bare_bound(self) -> bool:
        """Whether a pod of it is bound that no controller would create again."""
        bound = self.allocation.bound if self.allocation is not None else ()
        return any(controller(self.pods[number]) is None for number in bound)

    @property
    def reference(self) -> ObjectReference:
        """Its first pod, as the object that its faults are reported on."""
        about = self.pods[0].metadata
        return ObjectReference(PODS, about.namespace, about.name, about.uid)

    @property
    def state(self) -> JobState:
        """The gang as the controller knows it."""
        return JobState(self.id, self.number, self.job, self.status)


def nodes_of(job: Job, placement: Placement) -> Sequence[str]:
    """Returns the node of each member, in the order of members."""
    return [node for role in job.roles for node in placement.nodes.get(role.name, ())]


def placement_of(job: Job, nodes: Sequence[str]) -> Placement:
    """Inverse of `nodes_of`."""
    rest = iter(nodes)
    return Placement({role.name: tuple(next(rest) for _ in range(role.replicas)) for role in job.roles})


def waits(pod: Pod | None) -> bool:
    """Tells whether a pod still waits for a node."""
    if pod is None or pod.metadata.deletion_timestamp is not None:
        return False
    return not pod.spec.node_name and not pod.status.has_ended


def has_ended(pod: Pod | None) -> bool:
    """Tells whether a pod has ended or is gone."""
    return pod is None or pod.status.has_ended


def has_begun(pod: Pod | None) -> bool:
    """Tells whether a pod runs or has run."""
    return pod is None or pod.status.phase == "Running" or pod.status.has_ended


def _was_stopped(pod: Pod) -> bool:
    """Tells whether the program of an ended pod did not end by itself: the pod was deleted while it ran."""
    return pod.status.phase == "Failed" and pod.metadata.deletion_timestamp is not None


def _set(members: set[int], number: int, value: bool) -> None:  # noqa: FBT001 - the value of the element
    (members.add if value else members.discard)(number)
