"""Gathers the pods of changed groups into gangs: new ones, and late pods that replace members of a running gang."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.cluster.job_resolution import NamespaceLookups, requests_of
from windlass.backends.kubernetes.cluster.placement_check import PlacementCheck
from windlass.backends.kubernetes.external.cluster_fit import fitted_job, node_terms_in, queue_denial
from windlass.backends.kubernetes.external.dialects import job_id
from windlass.backends.kubernetes.external.external_gang import Allocation, ExternalGang, placement_of
from windlass.backends.kubernetes.external.gang_index import GangIndex
from windlass.backends.kubernetes.external.groups import Group, Groups
from windlass.backends.kubernetes.external.late_pods import find_slot
from windlass.backends.kubernetes.external.pending_messages import PendingMessages
from windlass.backends.port import BackendEvent, JobEvent
from windlass.core.lifecycle.events import Cancel
from windlass.jobs.kubernetes.external import gang_assembly
from windlass.jobs.kubernetes.external.membership import GangKey
from windlass.wire import exponential_backoff

_REFUSED = "Misconfigured"
"""Reason of a job that the controller has refused."""
_BACKOFF_MS, _MAX_BACKOFF_MS = 1_000, 60_000
"""Milliseconds before a gang that could not be bound is gathered again; doubled each time up to the longest."""
_PODS_PER_MS = 10
"""An incomplete group waits one millisecond for each so many of its pods before it is gathered again."""


@dataclass(slots=True)
class GangGathering:
    """Forms gangs from the pods of changed groups, and assigns late pods to running gangs.

    `bind_late` binds a late pod; `recount` counts a pod that the controller begins or ceases to account for.
    """

    groups: Groups
    index: GangIndex
    messages: PendingMessages
    around: Callable[[str], NamespaceLookups]
    placements: PlacementCheck
    now: Callable[[], int]
    recount: Callable[[Pod], None]
    bind_late: Callable[[ExternalGang, Allocation, int], None]
    tell: Callable[[BackendEvent], None]
    wake: Callable[[], None]
    _waiting_for_name: dict[str, list[GangKey]] = field(default_factory=dict)
    """Groups that wait for the end of the gang of an id."""

    def new_gangs(self, group: Group) -> Iterator[ExternalGang]:
        """Yields the gangs that the waiting pods of a changed group form. Late pods are bound in their gang first."""
        if group.refused[0] and group.refused[1] <= group.pods.keys():
            return
        if group.not_before > self.now():
            return  # the group is touched again at that time
        if not group.loose and self.groups.object_of(group.member) is group.manifest:
            self._set_missing(group, "")
            return
        gangs = self.index.of_group(group.member)
        if group.is_unwound or any(gang.is_leaving for gang in gangs):
            return  # pods that are about to be deleted do not count, and new pods are to start together
        self._fill_places(group, gangs)
        yield from self.gather(group)

    def gather(self, group: Group) -> Iterator[ExternalGang]:
        """Yields the gangs that the waiting pods of a group form."""
        for gang in self._assemble(group):
            called = job_id(group.member, gang.name)
            if called in self.index:  # the end of that gang touches this group again
                self._waiting_for_name.setdefault(called, []).append(group.member)
                continue
            job = fitted_job(gang, self.around(group.member.namespace))
            yield ExternalGang(called, gang.name, 0, group.member, job, list(gang.pods), gang)

    def forget(self, gang: ExternalGang) -> None:
        """Removes a gang that has ended for the controller, and touches the groups that waited for its end."""
        self.index.remove(gang)
        self.placements.release(gang.id)
        self.messages.clear(gang.id)
        group = self.groups.get(gang.member)
        if group is not None:
            self._clean_up(gang, group)
        self.groups.touch(gang.member)
        self.groups.touch_all(self._waiting_for_name.pop(gang.id, ()))

    def let_go(self, gang: ExternalGang, number: int) -> None:
        """Removes the pod of a member from the gang."""
        uid = gang.pods[number].metadata.uid
        gang.see(uid, None)
        self.index.release(uid)
        if (group := self.groups.get(gang.member)) is not None and (left := group.pods.get(uid)) is not None:
            self.recount(left)
            self.groups.touch(group.member)

    def _clean_up(self, gang: ExternalGang, group: Group) -> None:
        """Counts the pods that are left of a gang, and decides when its group is gathered again."""
        for pod in gang.pods:
            if (left := group.pods.get(pod.metadata.uid)) is not None:
                self.recount(left)
        if gang.status.reason == _REFUSED:
            group.refused = gang.status.message, frozenset(pod.metadata.uid for pod in gang.pods)
            self.messages.say(gang.id, gang.status.message, lambda: group.ready)
        if gang.allocation is not None and gang.allocation.whole:
            group.failures = 0
        elif gang.allocation is not None and gang.allocation.failed:
            wait = exponential_backoff(group.failures, _BACKOFF_MS, _MAX_BACKOFF_MS)
            group.failures += 1
            self.retry_later(group, wait)

    def retry_later(self, group: Group, wait: int) -> None:
        """Gathers a group again after so many ms, and not before."""
        group.not_before = self.now() + wait
        asyncio.get_running_loop().call_later(wait / 1000, self._retry, group)

    def _retry(self, group: Group) -> None:
        group.not_before = 0
        self.groups.touch(group.member)
        self.wake()

    def _fill_places(self, group: Group, gangs: Sequence[ExternalGang]) -> None:
        open_gangs = [gang for gang in gangs if gang.allocation is not None and gang.allocation.whole]
        if not open_gangs:
            return
        terms = node_terms_in(self.around(group.member.namespace))
        for pod in [each for each in group.loose.values() if not each.spec.scheduling_gates]:
            for gang in open_gangs:
                number = find_slot(gang, pod, terms, partial(self._fits, gang))
                if number is not None:
                    self._follow(gang, number, pod)
                    break

    def _fits(self, gang: ExternalGang, node: str) -> bool:
        assert gang.allocation is not None  # noqa: S101 - only a whole gang has late pods
        placement = placement_of(gang.job, gang.allocation.nodes)
        return self.placements.fits(gang.id, gang.job, placement, node)

    def _follow(self, gang: ExternalGang, number: int, pod: Pod) -> None:
        """Binds a late pod in the place of a member that has ended."""
        assert gang.allocation is not None  # noqa: S101 - only a whole gang has late pods
        self.let_go(gang, number)
        gang.replace(number, pod)
        self.index.assign(gang, pod)
        self.bind_late(gang, gang.allocation, number)

    def _assemble(self, group: Group) -> Sequence[gang_assembly.AssembledGang[Pod]]:
        member, manifest = group.member, self.groups.object_of(group.member)
        group.refused = "", frozenset()
        if manifest is group.manifest and not group.loose:
            self._set_missing(group, "")
            return ()
        group.manifest = manifest
        known = [uid for uid in group.pods if self.index.of_pod(uid) is not None]
        terms = node_terms_in(self.around(member.namespace))
        gathered = gang_assembly.assemble_gangs(member, group.ready, manifest, requests_of, known, terms)
        denials = (queue_denial(gang, self.around(member.namespace)) for gang in gathered.gangs)
        self._set_missing(group, gathered.missing or next(filter(None, denials), ""))
        if group.missing and (wait := len(group.pods) // _PODS_PER_MS):
            self.retry_later(group, wait)
        before, group.minimum = group.minimum, gathered.minimum or group.minimum
        if before not in (0, group.minimum) and self._start_over(group):
            return ()
        return () if group.missing else gathered.gangs

    def _set_missing(self, group: Group, missing: str) -> None:
        """Notes why the pods of a group form no gang yet, and writes it to its pods."""
        group.missing = missing
        called = job_id(group.member, group.member.name)
        if called in self.index:
            return
        if group.missing:
            self.messages.say(called, group.missing, lambda: group.ready)
        else:
            self.messages.clear(called)

    def _start_over(self, group: Group) -> bool:
        """Cancels waiting gangs after the number of pods that start together has changed; returns whether any were."""
        gangs = self.index.of_group(group.member)
        waiting = [gang for gang in gangs if gang.allocation is None and not gang.cancelled]
        for gang in waiting:
            gang.cancelled = True
            self.tell(JobEvent(gang.id, Cancel("a change of its PodGroup")))
        return bool(waiting)
