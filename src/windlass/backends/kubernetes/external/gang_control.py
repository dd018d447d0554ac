"""Carries out the controller's commands for external gangs, and reports what becomes of their pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.cluster.job_resolution import NamespaceLookups
from windlass.backends.kubernetes.cluster.object_faults import ObjectFaults
from windlass.backends.kubernetes.cluster.placement_check import PlacementCheck
from windlass.backends.kubernetes.external.external_binder import ExternalBinder
from windlass.backends.kubernetes.external.external_gang import Allocation, ExternalGang, nodes_of, placement_of
from windlass.backends.kubernetes.external.gang_gathering import GangGathering
from windlass.backends.kubernetes.external.gang_index import GangIndex
from windlass.backends.kubernetes.external.pending_messages import PendingMessages
from windlass.backends.kubernetes.pods.pod_deletion import PodDeletion, is_leaving_within, limited_grace
from windlass.backends.port import BackendEvent, JobEvent
from windlass.core.lifecycle.events import Cancel, GangGone, PreemptionRefused
from windlass.core.model.status import FailureClass, Placement, Target
from windlass.core.preemption.victims import BORROWED

_LEFT_ALONE = ("NodeLost",)
"""Reasons to end a gang for the controller only: its owner handles its living pods."""


@dataclass(frozen=True, slots=True)
class BackendCallbacks:
    """Functions and parts of the backend that external gangs use."""

    inject: Callable[[BackendEvent], None]
    allocate_number: Callable[[], int]
    """Returns the next job number."""
    recount: Callable[[Pod], None]
    """Called for a pod when the controller begins or ceases to account for it."""
    report_cluster: Callable[[], None]
    """Reports the cluster to the controller before the events that follow."""
    wake: Callable[[], None]
    """Schedules a call of `ExternalGangs.process_changed`."""
    placements: PlacementCheck
    is_usable: Callable[[str], bool]
    """Tells whether a pod may be bound to the node of this name."""
    around: Callable[[str], NamespaceLookups]
    """Returns the lookups for a pod of this namespace."""
    now: Callable[[], int]
    on_trouble: Callable[[str], None]
    faults: ObjectFaults
    key: bytes
    """Key of the operator by which it signs decisions."""


class ExternalGangControl:
    """Executor of the controller's commands for external gangs: binds and evicts the pods of one gang at a time.

    `mark` is called with each gang that is to be processed.
    """

    def __init__(
        self,
        index: GangIndex,
        binder: ExternalBinder,
        deletion: PodDeletion,
        gathering: GangGathering,
        messages: PendingMessages,
        callbacks: BackendCallbacks,
        mark: Callable[[ExternalGang], None],
    ) -> None:
        self._index, self._binder, self._deletion = index, binder, deletion
        self._gathering, self._messages, self._callbacks = gathering, messages, callbacks
        self._mark = mark
        deletion.on_refused = self._take_back_stop

    def launch(self, job_id: str, generation: int, placement: Placement) -> None:
        """Binds all pods of a gang."""
        gang = self._index.get(job_id)
        if gang is None or (gang.allocation is not None and gang.allocation.busy):
            return
        if gang.allocation is None:
            gang.allocation = Allocation(generation, nodes_of(gang.job, placement))
            self.hold(gang, gang.allocation)
        self._messages.clear(job_id)
        self._binder.launch(gang, gang.allocation)

    def stop(self, job_id: str, generation: int, grace: int) -> None:
        """Evicts a gang; deletes the pods of one that is not whole, if a controller creates them again.

        `grace`: the most, in ms, that they have to end.
        """
        gang = self._index.get(job_id)
        if gang is None or gang.allocation is None:
            self._callbacks.inject(JobEvent(job_id, GangGone(generation)))
            self._callbacks.inject(JobEvent(job_id, Cancel("the end of its pods")))
            return
        gang.allocation.tracker.stopping = True
        gang.allocation.grace = max(1, -(-grace // 1000))
        gang.allocation.left_alone = _is_left_alone(gang, gang.allocation)
        self._mark(gang)

    def _take_back_stop(self, pod: Pod, why: str) -> None:
        """Cancels the preemption of a gang if a disruption budget has forbidden the eviction of all of its pods.

        Quota that another queue has lent is taken back all the same, by deleting the pods: a tenant writes the budgets
        of its namespace, and could keep the quota for ever.
        """
        gang = self._index.of_pod(pod.metadata.uid)
        allocation = gang.allocation if gang is not None else None
        if gang is None or allocation is None or not (allocation.stopping and _is_preempted(gang)):
            return
        living = list(gang.living())
        if len(living) < len(gang.pods) or any(each.metadata.deletion_timestamp for each in living):
            return  # some pods were evicted: the other evictions must follow
        self._deletion.cancel_evictions(living)
        if _is_reclaimed(gang):
            text = (
                f"is deleted, although {pod.metadata.name} may not be evicted ({why}): its queue has borrowed the quota"
            )
            self._callbacks.faults.report(gang.reference, text)
            for each in living:
                self._deletion.delete([each], limited_grace(each, allocation.grace))
            return
        allocation.tracker.stopping = False
        allocation.emptied = False
        self._callbacks.inject(
            JobEvent(gang.id, PreemptionRefused(allocation.generation, f"{pod.metadata.name}: {why}"))
        )
        self._mark(gang)  # its start was held back by the stop

    def hold(self, gang: ExternalGang, allocation: Allocation) -> None:
        """Records that a gang holds its nodes."""
        placement = placement_of(gang.job, allocation.nodes)
        self._callbacks.placements.hold(gang.id, gang.job, placement, lambda: allocation.is_held)

    def process(self, gang: ExternalGang) -> None:
        """Reports what has happened to a gang since the last call, and deletes its pods if it is being stopped."""
        allocation, changed, gang.changed = gang.allocation, gang.changed, set()
        if allocation is not None:
            self._settle(gang, allocation)
        for event in gang.take_events():
            self._callbacks.inject(JobEvent(gang.id, event))
        if allocation is None or allocation.busy or allocation.gone or allocation.left_alone:
            return
        if allocation.stopping:
            living = gang.living(sorted(changed) if allocation.emptied else None)
            self._remove(allocation, (pod for pod in living if not is_leaving_within(pod, allocation.grace)))
            allocation.emptied = True

    def _remove(self, allocation: Allocation, pods: Iterable[Pod]) -> None:
        """Evicts pods. No disruption budget covers a part of a gang, or a pod that is being deleted already."""
        for pod in pods:
            is_covered = allocation.whole and not pod.metadata.deletion_timestamp
            remove = self._deletion.evict if is_covered else self._deletion.delete
            remove([pod], limited_grace(pod, allocation.grace))

    def _settle(self, gang: ExternalGang, allocation: Allocation) -> None:
        """Processes what the binder has done, and hands over the pods of a gang that is left alone."""
        while allocation.given_up:
            self._gathering.let_go(gang, allocation.given_up.pop())
        while allocation.rebound and not allocation.busy:
            number = allocation.rebound.pop()
            allocation.observe(number, gang.now[number])
        if allocation.left_alone and not (allocation.handed_over or allocation.busy):
            allocation.handed_over = True
            for pod in gang.living():
                self._callbacks.recount(pod)
            self._callbacks.report_cluster()  # before the controller assigns these resources to another gang


def _is_left_alone(gang: ExternalGang, allocation: Allocation) -> bool:
    """Tells whether the living pods of a gang that is stopped continue.

    A gang that could not be bound whole keeps a bound pod that no controller would create again: the other pods wait
    for room as a gang of their own.
    """
    if allocation.whole:
        return gang.status.reason in _LEFT_ALONE
    return bool(allocation.failed) and gang.has_bare_bound and not _is_preempted(gang)


def _is_reclaimed(gang: ExternalGang) -> bool:
    """Tells whether a gang that is preempted holds quota that another queue has lent."""
    failure = gang.status.last_failure
    return failure is not None and BORROWED in failure.message


def _is_preempted(gang: ExternalGang) -> bool:
    """Tells whether a gang is being stopped for the sake of another one."""
    failure = gang.status.last_failure
    return gang.status.target is Target.REQUEUE and failure is not None and failure.kind is FailureClass.PREEMPTION
