"""The gangs of others that the controller holds as jobs: how they come to it, what it decides, and how they leave.

Their states live in memory. A gang that has to go is not queued again: its owner makes pods anew, and these are another
gang.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.client.resources import Resource
from windlass.backends.kubernetes.cluster.job_resolution import Surroundings, asks
from windlass.backends.kubernetes.external.cluster_fit import fitted_job, stored, terms_in
from windlass.backends.kubernetes.external.dialects import job_id
from windlass.backends.kubernetes.external.external_binder import ExternalBinder
from windlass.backends.kubernetes.external.external_gang import (
    Allocation,
    ExternalGang,
    hear,
    is_leaving,
    living_members,
    nodes_of,
    waits,
)
from windlass.backends.kubernetes.external.group_status import GroupStatusWriter
from windlass.backends.kubernetes.external.groups import Group, Groups
from windlass.backends.kubernetes.external.late_pods import vacancy
from windlass.backends.kubernetes.external.recovery import Recovering
from windlass.backends.kubernetes.pods.pod_binding import PodBinding
from windlass.backends.kubernetes.status.pending_conditions import PendingConditions, changes_materially
from windlass.backends.port import JobArrived, JobEvent, WorldEvent
from windlass.core.lifecycle.events import Cancel, GangGone
from windlass.core.model.status import TERMINAL, JobState, Placement
from windlass.jobs.kubernetes.external.gang_assembly import Gang, gather
from windlass.jobs.kubernetes.external.membership import Membership

_REFUSED = "Misconfigured"
"""The reason of a job that the controller would not have."""
_LEFT_ALONE = ("NodeLost",)
"""Reasons to end a gang for the controller that are none to end its other pods: its owner sees to them."""
_BACKOFF, _MOST = 1_000, 60_000
"""Ms before a gang that could not be bound is gathered again; doubled each time up to the most."""


@dataclass(frozen=True, slots=True)
class Outlet:
    """What the world does for its guests."""

    tell: Callable[[WorldEvent], None]
    number: Callable[[], int]
    """The next number of a job."""
    recount: Callable[[Pod], None]
    """Whether a pod is the controller's has changed."""
    tell_nodes: Callable[[], None]
    """The controller is to hear of this before what it is told next."""
    wake: Callable[[], None]
    """There is something to look at."""
    usable: Callable[[str], bool]
    """Whether a pod may be bound to the node of this name."""
    around: Callable[[str], Surroundings]
    """What a pod of this namespace sees."""
    now: Callable[[], int]
    trouble: Callable[[str], None]


class ExternalGangs:
    """Watches put in what they see; `look` tells what comes of it. Nothing is looked at before `recover`."""

    def __init__(self, seating: PodBinding, words: PendingConditions, outlet: Outlet) -> None:
        self._outlet, self._words = outlet, words
        self._groups = Groups()
        self._group_words = GroupStatusWriter(seating.connection, self._groups, self._why, outlet.trouble)
        self._porter = ExternalBinder(seating, self._to_choose, self._concern, self._let_go, outlet.trouble)
        self._guests: dict[str, ExternalGang] = {}
        self._by_uid: dict[str, ExternalGang] = {}
        self._concerned: dict[str, ExternalGang] = {}
        self._said: dict[str, str] = {}
        """Why a gang waits, by its id."""
        self._namesakes: dict[str, list[Membership]] = {}
        """Groups that wait for the end of the gang of an id."""

    # --- what watches and faces call -----------------------------------------------------------------

    def see_pod(self, pod: Pod, *, there: bool) -> None:
        """A pod as it is now, or was at last; anybody's."""
        before = self._groups.of(pod.metadata.uid)
        self._groups.see_pod(pod, there=there)
        if (guest := self._by_uid.get(pod.metadata.uid)) is not None:
            self._concern(guest)
        if (group := self._groups.of(pod.metadata.uid) or before) is not None:
            self._outlet.wake()
            self._group_words.mark(group.member)

    def see_object(self, resource: Resource, manifest: dict[str, Any], *, there: bool) -> None:
        """A PodGroup, Job or JobSet as it is now, or was at last."""
        self._groups.see_object(resource, manifest, there=there)
        self._outlet.wake()

    def look_around(self) -> None:
        """Nodes, claims, classes, … are others now: whoever could not be a job may be one."""
        for group in self._groups:
            if group.refused[0] or group.missing:
                group.refused = "", frozenset()
                self._groups.touch(group.member)
        self._outlet.wake()

    def say(self, job_id: str, sentence: str) -> bool:
        """Why a gang waits. False: it is none of these."""
        guest = self._guests.get(job_id)
        if guest is None:
            return False
        self._say(job_id, sentence, lambda: guest.pods)
        self._group_words.mark(guest.member)
        return True

    def holds(self, pod: Pod) -> bool:
        """Whether the controller knows what a pod takes, and where."""
        guest = self._by_uid.get(pod.metadata.uid)
        stay = guest.stay if guest is not None else None
        if guest is None or stay is None or stay.gone or stay.handed_over:
            return False
        return not pod.spec.node_name or pod.spec.node_name == stay.nodes[guest.number_of(pod)]

    def get(self, job_id: str) -> ExternalGang | None:
        """The gang of this id, while the controller holds it."""
        return self._guests.get(job_id)

    async def close(self) -> None:
        """Leave everything as it is."""
        await self._group_words.close()
        await self._porter.close()

    # --- the port ------------------------------------------------------------------------------------

    def recover(self) -> Sequence[JobState]:
        """The gangs that are on nodes, on their way, or wait: what their pods tell of earlier controllers."""
        recovering = Recovering(self._groups, self._outlet.around, self._outlet.usable, self._outlet.now())
        for guest in recovering.placed():
            self._admit(guest)
        self._porter.unwind(recovering.to_unwind)
        for group in list(self._groups):
            for gang in () if group.is_unwound else self._gathered(group):
                if (waiting := self._guest(group, gang)) is not None:
                    waiting.status = recovering.queued(waiting)
                    self._admit(waiting)
        for guest in sorted(self._guests.values(), key=lambda guest: (guest.status.queued_at or 0, guest.id)):
            guest.number = self._outlet.number()
        return [guest.state for guest in self._guests.values()]

    def look(self) -> None:
        """Tell what has happened since the last look."""
        for group in self._groups.changed():
            self._look_at_group(group)
        concerned, self._concerned = self._concerned, {}
        for guest in concerned.values():
            if guest.id in self._guests:
                self._look_at(guest)

    def commit(self, state: JobState) -> None:
        """What the controller made of a gang; whoever has ended is forgotten."""
        guest = self._guests.get(state.id)
        if guest is None:
            return
        guest.status = state.status
        if state.status.phase in TERMINAL:
            self._close(guest)

    def launch(self, job_id: str, generation: int, placement: Placement) -> None:
        """Bind all pods of a gang."""
        guest = self._guests.get(job_id)
        if guest is None or (guest.stay is not None and guest.stay.busy):
            return
        if guest.stay is None:
            guest.stay = Allocation(generation, nodes_of(guest.job, placement))
        self._hush(job_id)
        self._porter.launch(guest, guest.stay)

    def stop(self, job_id: str, generation: int, _grace: int) -> None:
        """Evict a gang; one that is not whole is unwound."""
        guest = self._guests.get(job_id)
        if guest is None or guest.stay is None:
            self._outlet.tell(JobEvent(job_id, GangGone(generation)))
            self._outlet.tell(JobEvent(job_id, Cancel("its pods are gone")))
            return
        stay = guest.stay
        stay.stopping = True
        stay.left_alone = stay.whole and guest.status.reason in _LEFT_ALONE
        self._concern(guest)

    # --- looking -------------------------------------------------------------------------------------

    def _look_at_group(self, group: Group) -> None:
        if group.refused[0] and group.refused[1] <= group.pods.keys():
            return
        if group.not_before > self._outlet.now():
            return  # it is touched again then
        if group.is_unwound or any(is_leaving(guest, self._now(guest)) for guest in self._gangs_of(group)):
            return  # who is about to go counts no more, and whoever comes is to start together
        self._fill_vacancies(group)
        for gang in self._gathered(group):
            guest = self._guest(group, gang)
            if guest is not None:
                guest.number = self._outlet.number()
                self._admit(guest)
                self._outlet.tell(JobArrived(guest.id, guest.number, guest.job))
        self._group_words.mark(group.member)

    def _fill_vacancies(self, group: Group) -> None:
        comers = [pod for pod in self._unknown(group) if waits(pod)]
        gangs = (
            [guest for guest in self._gangs_of(group) if guest.stay is not None and guest.stay.whole] if comers else ()
        )
        terms = terms_in(self._outlet.around(group.member.namespace))
        for pod in (each for each in comers if not each.spec.scheduling_gates):
            for guest in gangs:
                number = vacancy(guest, self._now(guest), pod, terms, self._outlet.usable)
                if number is not None and guest.stay is not None:
                    self._let_go(guest, number)
                    guest.pods[number] = pod
                    self._by_uid[pod.metadata.uid] = guest
                    self._porter.follow(guest, guest.stay, number)
                    break

    def _let_go(self, guest: ExternalGang, number: int) -> None:
        """A pod is none of the gang's any more."""
        uid = guest.pods[number].metadata.uid
        self._by_uid.pop(uid, None)
        if (group := self._groups.get(guest.member)) is not None and (left := group.pods.get(uid)) is not None:
            self._outlet.recount(left)
            self._groups.touch(group.member)

    def _gangs_of(self, group: Group) -> Sequence[ExternalGang]:
        return list({id(found): found for uid in group.pods if (found := self._by_uid.get(uid))}.values())

    def _now(self, guest: ExternalGang) -> Sequence[Pod | None]:
        """Its pods as they are."""
        group = self._groups.get(guest.member)
        known: Mapping[str, Pod] = group.pods if group is not None else {}
        return [known.get(pod.metadata.uid) if self._is_member(pod, guest) else None for pod in guest.pods]

    def _is_member(self, pod: Pod, guest: ExternalGang) -> bool:
        return self._by_uid.get(pod.metadata.uid) is guest

    def _gathered(self, group: Group) -> Sequence[Gang[Pod]]:
        """The gangs that are new."""
        member, manifest = group.member, self._groups.object_of(group.member)
        group.refused = "", frozenset()
        if manifest is group.manifest and not any(waits(pod) for pod in self._unknown(group)):
            group.missing = ""
            self._tell_missing(group)
            return ()
        group.manifest = manifest
        known = [uid for uid in group.pods if uid in self._by_uid]
        terms = terms_in(self._outlet.around(member.namespace))
        gathered = gather(member, group.ready, manifest, asks, known, terms)
        group.missing = gathered.missing
        self._tell_missing(group)
        before, group.minimum = group.minimum, gathered.minimum or group.minimum
        if before not in (0, group.minimum) and self._start_over(group):
            return ()
        return gathered.gangs

    def _unknown(self, group: Group) -> Iterable[Pod]:
        return (pod for uid, pod in group.pods.items() if uid not in self._by_uid)

    def _tell_missing(self, group: Group) -> None:
        called = job_id(group.member, group.member.name)
        if called in self._guests:
            return
        if group.missing:
            self._say(called, group.missing, lambda: group.ready)
        else:
            self._hush(called)

    def _start_over(self, group: Group) -> bool:
        """Another number of pods is to start together: whoever waits was gathered for the old one."""
        waiting = [guest for guest in self._gangs_of(group) if guest.stay is None and not guest.cancelled]
        for guest in waiting:
            guest.cancelled = True
            self._outlet.tell(JobEvent(guest.id, Cancel("its PodGroup has changed")))
        return bool(waiting)

    def _guest(self, group: Group, gang: Gang[Pod]) -> ExternalGang | None:
        """None: a namesake is still there; its end has this group looked at again."""
        called = job_id(group.member, gang.name)
        if called in self._guests:
            self._namesakes.setdefault(called, []).append(group.member)
            return None
        job = fitted_job(gang, self._outlet.around(group.member.namespace))
        return ExternalGang(called, gang.name, 0, group.member, job, list(gang.pods))

    def _admit(self, guest: ExternalGang) -> None:
        self._guests[guest.id] = guest
        for pod in guest.pods:
            self._by_uid[pod.metadata.uid] = guest
        self._concern(guest)

    def _look_at(self, guest: ExternalGang) -> None:
        pods = self._now(guest)
        stay = guest.stay
        if stay is not None and stay.stopping and stay.left_alone and not (stay.handed_over or stay.busy):
            stay.handed_over = True
            for pod in living_members(stay, pods):
                self._outlet.recount(pod)
            self._outlet.tell_nodes()  # before the controller gives this room to somebody else
        for event in hear(guest, pods):
            self._outlet.tell(JobEvent(guest.id, event))
        if stay is not None and stay.stopping and not (stay.busy or stay.gone or stay.left_alone):
            dismiss = self._porter.evict if stay.whole else self._porter.unwind
            dismiss(living_members(stay, pods))

    def _close(self, guest: ExternalGang) -> None:
        """The controller has let go of it."""
        del self._guests[guest.id]
        self._concerned.pop(guest.id, None)
        self._hush(guest.id)
        for pod in guest.pods:
            if self._is_member(pod, guest):
                del self._by_uid[pod.metadata.uid]
        group = self._groups.get(guest.member)
        if group is not None:
            self._look_after(guest, group)
        self._groups.touch(guest.member)
        self._groups.touch_all(self._namesakes.pop(guest.id, ()))
        self._outlet.wake()

    def _look_after(self, guest: ExternalGang, group: Group) -> None:
        """What is left of a gang that has ended for the controller."""
        for pod in guest.pods:
            if (left := group.pods.get(pod.metadata.uid)) is not None:
                self._outlet.recount(left)
        if guest.status.reason == _REFUSED:
            group.refused = guest.status.message, frozenset(pod.metadata.uid for pod in guest.pods)
            self._say(guest.id, guest.status.message, lambda: group.ready)
        if guest.stay is not None and guest.stay.whole:
            group.failures = 0
        elif guest.stay is not None and guest.stay.failed:
            wait = min(_BACKOFF << min(group.failures, 10), _MOST)
            group.failures += 1
            group.not_before = self._outlet.now() + wait
            asyncio.get_running_loop().call_later(wait / 1000, self._again, group)

    def _again(self, group: Group) -> None:
        group.not_before = 0
        self._groups.touch(group.member)
        self._outlet.wake()

    # --- words ---------------------------------------------------------------------------------------

    def _why(self, member: Membership) -> str:
        group = self._groups.get(member)
        if group is None:
            return ""
        return group.refused[0] or group.missing or self._said.get(job_id(member, member.name), "")

    def _say(self, called: str, sentence: str, pods: Callable[[], Iterable[Pod]]) -> None:
        if changes_materially(self._said.get(called, ""), sentence):
            self._said[called] = sentence
        self._words.say(called, sentence, pods)

    def _hush(self, called: str) -> None:
        if self._said.pop(called, None) is not None:
            self._words.forget(called)

    # --- for the porter ------------------------------------------------------------------------------

    def _concern(self, guest: ExternalGang) -> None:
        self._concerned[guest.id] = guest
        self._outlet.wake()

    def _to_choose(self, pod: Pod) -> Sequence[str]:
        return stored(pod, self._outlet.around(pod.metadata.namespace)).to_choose if pod.spec.volumes else ()
