"""The external gangs that the controller schedules: arrival, changes and end.

Their states are kept in memory. A gang that is evicted is not queued again: pods that its owner creates next are
another gang.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.client.resources import Resource
from windlass.backends.kubernetes.cluster.lookups import ChangedNames
from windlass.backends.kubernetes.external.cluster_fit import claims_to_choose, fitted_job
from windlass.backends.kubernetes.external.dialects import job_id
from windlass.backends.kubernetes.external.external_binder import ExternalBinder
from windlass.backends.kubernetes.external.external_gang import ExternalGang
from windlass.backends.kubernetes.external.gang_control import BackendCallbacks, ExternalGangControl
from windlass.backends.kubernetes.external.gang_gathering import GangGathering
from windlass.backends.kubernetes.external.gang_index import GangIndex
from windlass.backends.kubernetes.external.group_status import GroupStatusWriter
from windlass.backends.kubernetes.external.groups import Groups
from windlass.backends.kubernetes.external.pending_messages import PendingMessages
from windlass.backends.kubernetes.external.recovery import GangRecovery
from windlass.backends.kubernetes.gangs.run_pods import is_being_deleted
from windlass.backends.kubernetes.pods.gang_binder import GangBinder
from windlass.backends.kubernetes.pods.pod_deletion import PodDeletion
from windlass.backends.kubernetes.status.pending_conditions import PendingConditions
from windlass.backends.port import JobArrived, JobChanged
from windlass.core.model.status import TERMINAL, JobState
from windlass.jobs.kubernetes.external.membership import GangKey
from windlass.jobs.kubernetes.gang_dialects import Dialect


class ExternalGangs:
    """All external gangs of a cluster, and the groups of pods from which they are gathered.

    Watches record changes; `process_changed` reports what follows from them. Nothing is reported before `recover`.
    """

    def __init__(
        self, binder: GangBinder, deletion: PodDeletion, conditions: PendingConditions, callbacks: BackendCallbacks
    ) -> None:
        self._callbacks, self._deletion = callbacks, deletion
        self._groups = Groups()
        self._index = GangIndex(self._groups)
        self._messages = PendingMessages(conditions, self._groups)
        self._group_status = GroupStatusWriter(
            binder.binding.connection, self._groups, self._messages.of_group, callbacks.on_trouble
        )
        self._binder = ExternalBinder(
            binder, partial(claims_to_choose, callbacks.around), self._mark, callbacks.on_trouble, callbacks.key
        )
        self._gathering = GangGathering(
            self._groups,
            self._index,
            self._messages,
            callbacks.around,
            callbacks.placements,
            callbacks.now,
            callbacks.recount,
            self._binder.follow,
            callbacks.inject,
            callbacks.wake,
        )
        self.control = ExternalGangControl(
            self._index, self._binder, deletion, self._gathering, self._messages, callbacks, self._mark
        )
        """Carries out the commands of the controller."""
        self._changed: dict[str, ExternalGang] = {}
        self.get = self._index.get
        self.held_of = self._index.held_of

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
            self._callbacks.wake()
            self._group_status.mark(changed.member)

    def see_object(self, resource: Resource, manifest: dict[str, object], *, there: bool) -> None:
        """Records a PodGroup, Job or JobSet as it is now, or as it was when it was deleted."""
        self._groups.see_object(resource, manifest, there=there)
        self._callbacks.wake()

    def job_set(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """Returns the JobSet of this name, if it exists."""
        return self._groups.object_of(GangKey(namespace, name, Dialect.JOB_SET))

    def incomplete(self) -> Iterator[JobState]:
        """Yields the groups whose waiting pods form no gang yet, with the reason; the controller does not know them."""
        for group in self._groups:
            if group.missing and group.loose and job_id(group.member, group.member.name) not in self._index:
                yield group.state

    def gather_again(self) -> None:
        """Gathers refused and incomplete groups again: nodes, claims or classes have changed."""
        for group in self._groups:
            if group.refused[0] or group.missing:
                group.refused = "", frozenset()
                self._groups.touch(group.member)
        self._callbacks.wake()

    def resolve_again(self, changed: ChangedNames) -> None:
        """Resolves the names in waiting gangs again, and reports jobs that have changed."""
        for gang in self._index:
            if gang.allocation is None and gang.gathered is not None and changed.concern(gang.member.namespace):
                self._resolve(gang)

    def _resolve(self, gang: ExternalGang) -> None:
        if gang.allocation is not None or gang.gathered is None:
            return
        with self._callbacks.faults.contain(gang.reference, "resolve", partial(self._resolve, gang)):
            job = fitted_job(gang.gathered, self._callbacks.around(gang.member.namespace))
            if job != gang.job:
                gang.job = job
                self._callbacks.inject(JobChanged(gang.id, job))

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
        recovering = GangRecovery(
            self._groups,
            self._callbacks.around,
            self._callbacks.is_usable,
            self._callbacks.key,
            self._callbacks.now(),
        )
        contain = self._callbacks.faults.contain
        for group in list(self._groups):
            with contain(group.reference, "recover", partial(self._groups.touch, group.member)):
                for gang in recovering.placed(group):
                    self._admit(gang)
        self._deletion.delete(pod for pod in recovering.to_unwind if not is_being_deleted(pod))
        for group in list(self._groups):
            with contain(group.reference, "gather", partial(self._groups.touch, group.member)):
                for waiting in () if group.is_unwound else self._gathering.gather(group):
                    waiting.status = recovering.queued(waiting)
                    self._admit(waiting)
        for gang in sorted(self._index, key=lambda gang: (gang.status.queued_at or 0, gang.id)):
            gang.number = self._callbacks.allocate_number()
        return [gang.state for gang in self._index]

    def process_changed(self) -> None:
        """Reports what has happened since the last call."""
        contain = self._callbacks.faults.contain
        for group in self._groups.changed():
            with contain(group.reference, "gather", partial(self._groups.touch, group.member)):
                for gang in self._gathering.new_gangs(group):
                    gang.number = self._callbacks.allocate_number()
                    self._admit(gang)
                    self._callbacks.inject(JobArrived(gang.id, gang.number, gang.job))
                self._group_status.mark(group.member)
        changed, self._changed = self._changed, {}
        for gang in changed.values():
            if self._index.get(gang.id) is gang:
                with contain(gang.reference, "run", partial(self._mark, gang)):
                    self.control.process(gang)

    def commit(self, state: JobState) -> None:
        """Stores the controller's state of a gang; a gang that has ended is forgotten."""
        gang = self._index.get(state.id)
        if gang is None:
            return
        gang.status = state.status
        if state.status.phase in TERMINAL:
            with self._callbacks.faults.contain(gang.reference, "forget", partial(self.commit, state)):
                self._changed.pop(gang.id, None)
                self._gathering.forget(gang)
                self._callbacks.wake()

    def _admit(self, gang: ExternalGang) -> None:
        self._index.add(gang)
        if gang.allocation is not None:
            self.control.hold(gang, gang.allocation)
        gang.observe_all()
        self._mark(gang)

    def _mark(self, gang: ExternalGang) -> None:
        self._changed[gang.id] = gang
        self._callbacks.wake()
