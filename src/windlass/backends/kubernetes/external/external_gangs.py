"""The external gangs that the controller schedules: arrival, commands and end.

Their states are kept in memory. A gang that is evicted is not queued again: pods that its owner creates next are
another gang.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.client.resources import Resource
from windlass.backends.kubernetes.cluster.job_resolution import Surroundings
from windlass.backends.kubernetes.cluster.lookups import ChangedNames
from windlass.backends.kubernetes.cluster.placement_check import PlacementCheck
from windlass.backends.kubernetes.external.cluster_fit import claims_to_choose, fitted_job
from windlass.backends.kubernetes.external.external_binder import ExternalBinder
from windlass.backends.kubernetes.external.external_gang import Allocation, ExternalGang, nodes_of, placement_of
from windlass.backends.kubernetes.external.gang_gathering import GangGathering
from windlass.backends.kubernetes.external.gang_index import GangIndex
from windlass.backends.kubernetes.external.group_status import GroupStatusWriter
from windlass.backends.kubernetes.external.groups import Groups
from windlass.backends.kubernetes.external.pending_messages import PendingMessages
from windlass.backends.kubernetes.external.recovery import Recovering
from windlass.backends.kubernetes.pods.pod_binding import PodBinding
from windlass.backends.kubernetes.pods.pod_deletion import PodDeletion
from windlass.backends.kubernetes.status.pending_conditions import PendingConditions
from windlass.backends.port import BackendEvent, JobArrived, JobChanged, JobEvent
from windlass.core.lifecycle.events import Cancel, GangGone, PreemptionRefused
from windlass.core.model.status import TERMINAL, FailureClass, JobState, Placement, Target

_LEFT_ALONE = ("NodeLost",)
"""Reasons to end a gang for the controller only: its owner handles its living pods."""


@dataclass(frozen=True, slots=True)
class Outlet:
    """The parts of the backend that external gangs use."""

    tell: Callable[[BackendEvent], None]
    number: Callable[[], int]
    """Returns the next job number."""
    recount: Callable[[Pod], None]
    """Called for a pod when the controller begins or ceases to account for it."""
    tell_nodes: Callable[[], None]
    """Reports the cluster to the controller before the events that follow."""
    wake: Callable[[], None]
    """Schedules a call of `look`."""
    placements: PlacementCheck
    usable: Callable[[str], bool]
    """Tells whether a pod may be bound to the node of this name."""
    around: Callable[[str], Surroundings]
    """Returns the lookups for a pod of this namespace."""
    now: Callable[[], int]
    trouble: Callable[[str], None]


class ExternalGangs:
    """Watches store what they see; `look` reports what follows. Nothing is reported before `recover`."""

    def __init__(
        self, binding: PodBinding, deletion: PodDeletion, conditions: PendingConditions, outlet: Outlet
    ) -> None:
        self._outlet, self._deletion = outlet, deletion
        deletion.on_refused = self._take_back_stop
        self._groups = Groups()
        self._index = GangIndex(self._groups)
        self._messages = PendingMessages(conditions, self._groups)
        self._group_status = GroupStatusWriter(
            binding.connection, self._groups, self._messages.of_group, outlet.trouble
        )
        self._binder = ExternalBinder(
            binding, outlet.placements, partial(claims_to_choose, outlet.around), self._mark, outlet.trouble
        )
        self._gathering = GangGathering(
            self._groups,
            self._index,
            self._messages,
            outlet.around,
            outlet.placements,
            outlet.now,
            outlet.recount,
            self._binder.follow,
            outlet.tell,
            outlet.wake,
        )
        self._changed: dict[str, ExternalGang] = {}
        self.get = self._index.get
        self.holds = self._index.holds

    # --- what watches and endpoints call -------------------------------------------------------------

    def see_pod(self, pod: Pod, *, there: bool) -> None:
        """Records a pod as it is now, or as it was when it was deleted; pods of any scheduler."""
        uid = pod.metadata.uid
        before = self._groups.of(uid)
        self._groups.see_pod(pod, there=there)
        group = self._groups.of(uid)
        if (gang := self._index.of_pod(uid)) is not None:
            gang.see(uid, pod if there and group is not None and group.member == gang.member else None)
            self._mark(gang)
        if (changed := group or before) is not None:
            self._outlet.wake()
            self._group_status.mark(changed.member)

    def see_object(self, resource: Resource, manifest: dict[str, object], *, there: bool) -> None:
        """Records a PodGroup, Job or JobSet as it is now, or as it was when it was deleted."""
        self._groups.see_object(resource, manifest, there=there)
        self._outlet.wake()

    def look_around(self) -> None:
        """Gathers refused and incomplete groups again: nodes, claims or classes have changed."""
        for group in self._groups:
            if group.refused[0] or group.missing:
                group.refused = "", frozenset()
                self._groups.touch(group.member)
        self._outlet.wake()

    def resolve_again(self, changed: ChangedNames) -> None:
        """Resolves the names in waiting gangs again, and reports jobs that have changed."""
        for gang in self._index:
            if gang.allocation is None and gang.gathered is not None and changed.concern(gang.member.namespace):
                job = fitted_job(gang.gathered, self._outlet.around(gang.member.namespace))
                if job != gang.job:
                    gang.job = job
                    self._outlet.tell(JobChanged(gang.id, job))

    def say(self, job_id: str, sentence: str) -> bool:
        """Sets the reason for which a gang waits. Returns False if it is no external gang."""
        gang = self._index.get(job_id)
        if gang is None:
            return False
        self._messages.say(job_id, sentence, lambda: gang.pods)
        self._group_status.mark(gang.member)
        return True

    async def close(self) -> None:
        """Stops all work in the background; the cluster stays as it is."""
        await self._group_status.close()
        await self._binder.close()

    # --- the port ------------------------------------------------------------------------------------

    def recover(self) -> Sequence[JobState]:
        """Returns the gangs that are bound, are being bound, or wait, as their pods show it."""
        recovering = Recovering(self._groups, self._outlet.around, self._outlet.usable, self._outlet.now())
        for gang in recovering.placed():
            self._admit(gang)
        self._deletion.delete(pod for pod in recovering.to_unwind if not pod.metadata.deletion_timestamp)
        for group in list(self._groups):
            for waiting in () if group.is_unwound else self._gathering.gather(group):
                waiting.status = recovering.queued(waiting)
                self._admit(waiting)
        for gang in sorted(self._index, key=lambda gang: (gang.status.queued_at or 0, gang.id)):
            gang.number = self._outlet.number()
        return [gang.state for gang in self._index]

    def look(self) -> None:
        """Reports what has happened since the last call."""
        for group in self._groups.changed():
            for gang in self._gathering.new_gangs(group):
                gang.number = self._outlet.number()
                self._admit(gang)
                self._outlet.tell(JobArrived(gang.id, gang.number, gang.job))
            self._group_status.mark(group.member)
        changed, self._changed = self._changed, {}
        for gang in changed.values():
            if self._index.get(gang.id) is gang:
                self._look_at(gang)

    def commit(self, state: JobState) -> None:
        """Stores the controller's state of a gang; a gang that has ended is forgotten."""
        gang = self._index.get(state.id)
        if gang is None:
            return
        gang.status = state.status
        if state.status.phase in TERMINAL:
            self._changed.pop(gang.id, None)
            self._gathering.forget(gang)
            self._outlet.wake()

    def launch(self, job_id: str, generation: int, placement: Placement) -> None:
        """Binds all pods of a gang."""
        gang = self._index.get(job_id)
        if gang is None or (gang.allocation is not None and gang.allocation.busy):
            return
        if gang.allocation is None:
            gang.allocation = Allocation(generation, nodes_of(gang.job, placement))
            self._hold(gang, gang.allocation)
        self._messages.clear(job_id)
        self._binder.launch(gang, gang.allocation)

    def stop(self, job_id: str, generation: int, _grace: int) -> None:
        """Evicts a gang; deletes the pods of one that is not whole."""
        gang = self._index.get(job_id)
        if gang is None or gang.allocation is None:
            self._outlet.tell(JobEvent(job_id, GangGone(generation)))
            self._outlet.tell(JobEvent(job_id, Cancel("the end of its pods")))
            return
        gang.allocation.tracker.stopping = True
        gang.allocation.left_alone = gang.allocation.whole and gang.status.reason in _LEFT_ALONE
        self._mark(gang)

    def _take_back_stop(self, pod: Pod, why: str) -> None:
        """Cancels the preemption of a gang if a disruption budget has forbidden the eviction of all of its pods."""
        gang = self._index.of_pod(pod.metadata.uid)
        allocation = gang.allocation if gang is not None else None
        if gang is None or allocation is None or not (allocation.stopping and _is_preempted(gang)):
            return
        living = list(gang.living())
        if len(living) < len(gang.pods) or any(each.metadata.deletion_timestamp for each in living):
            return  # some pods were evicted: the other evictions must follow
        allocation.tracker.stopping = False
        allocation.emptied = False
        self._deletion.cancel_evictions(living)
        self._outlet.tell(JobEvent(gang.id, PreemptionRefused(allocation.generation, f"{pod.metadata.name}: {why}")))

    # --- one gang -------------------------------------------------------------------------------------

    def _look_at(self, gang: ExternalGang) -> None:
        allocation, changed, gang.changed = gang.allocation, gang.changed, set()
        if allocation is not None:
            self._settle(gang, allocation)
        for event in gang.take_events():
            self._outlet.tell(JobEvent(gang.id, event))
        if allocation is None or allocation.busy or allocation.gone or allocation.left_alone:
            return
        if allocation.stopping:
            # no disruption budget covers a part of a gang
            remove = self._deletion.evict if allocation.whole else self._deletion.delete
            living = gang.living(sorted(changed) if allocation.emptied else None)
            remove(pod for pod in living if not pod.metadata.deletion_timestamp)
            allocation.emptied = True

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
                self._outlet.recount(pod)
            self._outlet.tell_nodes()  # before the controller assigns these resources to another gang

    def _hold(self, gang: ExternalGang, allocation: Allocation) -> None:
        placement = placement_of(gang.job, allocation.nodes)
        self._outlet.placements.hold(gang.id, gang.job, placement, lambda: allocation.is_held)

    def _admit(self, gang: ExternalGang) -> None:
        self._index.add(gang)
        if gang.allocation is not None:
            self._hold(gang, gang.allocation)
        gang.observe_all()
        self._mark(gang)

    def _mark(self, gang: ExternalGang) -> None:
        self._changed[gang.id] = gang
        self._outlet.wake()


def _is_preempted(gang: ExternalGang) -> bool:
    """Tells whether a gang is being stopped for the sake of another one."""
    failure = gang.status.last_failure
    return gang.status.target is Target.REQUEUE and failure is not None and failure.kind is FailureClass.PREEMPTION
