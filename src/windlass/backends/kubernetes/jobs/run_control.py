"""Acts on changed gangs: creates, binds, replaces and deletes their pods, and reports events to the controller."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.cluster.cluster_monitor import ClusterMonitor
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.gangs.run import Run, Slot
from windlass.backends.kubernetes.gangs.run_pods import is_being_deleted
from windlass.backends.kubernetes.jobs.job_store import JobStore
from windlass.backends.kubernetes.pods import pod_ends
from windlass.backends.kubernetes.pods.gang_pods import GangPods
from windlass.backends.kubernetes.pods.pod_deletion import is_leaving_within
from windlass.backends.kubernetes.pods.pod_executor import PodExecutor
from windlass.backends.kubernetes.pods.standby_pods import StandbyPods
from windlass.backends.port import BackendEvent, JobEvent
from windlass.core.lifecycle.events import ContainersRestarted, Exit, MembersPlaced
from windlass.core.lifecycle.failure import REJECTED
from windlass.core.model.status import Target
from windlass.core.placement.replacement import find_replaced_member
from windlass.jobs.kubernetes.pods.pod_assembly import SCHEDULER
from windlass.jobs.kubernetes.status.clean_up import keeps_running_pods, pods_to_delete


class ChangedGangs:
    """Set of gangs to be processed, now or at a given time.

    `take` returns those that are due. `wake` is called for each gang that is marked.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._changed: dict[str, Gang] = {}
        self._alarms: dict[str, tuple[int, Gang]] = {}

    def mark(self, gang: Gang) -> None:
        """Marks a gang to be processed."""
        self._changed[gang.id] = gang
        self._wake()

    def mark_at(self, gang: Gang, at: int) -> None:
        """Marks a gang to be processed at a time in ms; this replaces an earlier request."""
        self._alarms[gang.id] = at, gang

    def forget(self, gang: Gang) -> None:
        """Drops the alarm of a gang whose object is gone: a begin time may be years ahead."""
        if self._alarms.get(gang.id, (0, None))[1] is gang:
            del self._alarms[gang.id]

    @property
    def due(self) -> int | None:
        """Returns the next time at which a gang is due without a change."""
        return min((at for at, _ in self._alarms.values()), default=None)

    def take(self, now: int) -> Iterable[Gang]:
        """Returns the gangs that are due, each once."""
        due = [gang for at, gang in self._alarms.values() if at <= now]
        for gang in due:
            del self._alarms[gang.id]
            self._changed[gang.id] = gang
        changed, self._changed = self._changed, {}
        return changed.values()


@dataclass(frozen=True, slots=True)
class BackendParts:
    """The parts of the backend that the controller of gangs uses."""

    gang_pods: GangPods
    monitor: ClusterMonitor
    inject: Callable[[BackendEvent], None]
    settling: int
    """Milliseconds for which the first failure of a run waits for earlier ones (`MemberTracker`)."""


@dataclass(frozen=True, slots=True)
class RunControl:
    """Control loop of gangs: creates standby pods of those that wait; binds, replaces and deletes the pods of runs.

    `report` writes the status of a changed gang. The cost of `process` is proportional to the pods that changed.
    """

    store: JobStore
    changed: ChangedGangs
    standby: StandbyPods
    executor: PodExecutor
    parts: BackendParts
    report: Callable[[Gang], None]

    def process_due(self, now: int) -> None:
        """Processes every gang that is due."""
        for gang in self.changed.take(now):
            if self.store.get(gang.id) is not gang:  # its object is gone, and another one may have its name
                continue
            with self.parts.monitor.faults.contain(gang.reference, "run", partial(self.changed.mark, gang)):
                if gang.run is None:
                    self._prepare(gang, now)
                    self.executor.upkeep.update_suspended(gang)
                    self.report(gang)
                else:
                    self.process(gang, gang.run, now)

    def _prepare(self, gang: Gang, now: int) -> None:
        """Creates the pods of a gang that waits; not before its begin time, as autoscalers add nodes for them."""
        if gang.job.begin is not None and now < gang.job.begin:
            self.changed.mark_at(gang, gang.job.begin)
        else:
            self.standby.prepare(gang)

    def process(self, gang: Gang, run: Run, now: int) -> None:
        """Acts on the pods that have changed, and reports the events that follow."""
        changed = run.pods.take_changed()
        gang.notes.needs_write |= (run.alone and bool(changed)) or run.without_image != run.pods.without_image
        run.without_image = frozenset(run.pods.without_image)
        if run.launched and not run.checked:
            run.checked = True
            self.parts.gang_pods.check_missing(run)
        if not run.stopping:
            self._keep_running(gang, run, changed)
            self._report_placement(gang, run, changed)
        self._report_container_restarts(gang, run)
        ends = run.stopping and not run.busy and not gang.released
        makers = self._stop(gang, run, changed) if ends else ()
        self.report(gang)
        more = run.busy or run.updating_dependents or run.removing_services or bool(makers)
        for event in run.tracker.take_events(now, more_may_come=more):
            self.parts.inject(JobEvent(gang.id, event))
        self._set_alarm(gang, run, changed, now)

    def _keep_running(self, gang: Gang, run: Run, changed: Mapping[int, Pod]) -> None:
        """Binds late pods; deletes pods of earlier generations; creates dependent objects; restarts single pods."""
        if run.ordered and run.made_by_others:
            self.executor.bind(gang, run, _to_be_bound(gang, run, changed))
        if run.launched and run.strays and not run.busy:
            self.executor.deletion.delete(run.strays.values(), run.grace)
            run.strays.clear()
        if run.launched:
            self.executor.upkeep.update(gang, run)
        if run.launched and run.alone:
            self._restart_members(gang, run)
        for number, exit in run.failed.items():
            run.tracker.fail(number, exit)

    def _restart_members(self, gang: Gang, run: Run) -> None:
        """Deletes replaced pods and those beyond the replicas; creates the next ones on the same nodes."""
        self.executor.deletion.delete(
            (pod for pod in run.pods.extra if pod.metadata.controller == gang.reference.owner_key), run.grace
        )
        if not run.restarting:
            return
        names = {number: name for name, number in gang.pod_names(run).items()}
        placement, missing = run.placement, []
        fits = partial(self.parts.monitor.placements.fits, gang.id, gang.job, placement)
        for number in sorted(run.restarting):
            pod, slot = run.pods.get(number), run.slots[number]
            if pod is not None:
                self.executor.deletion.delete([] if is_being_deleted(pod) else [pod], run.grace)
            elif not gang.job.placed_by and find_replaced_member(gang.job, placement, [number], fits) is None:
                detail = f"{names[number]} cannot restart: no pod may start on {slot.node} any more"
                run.failed[number] = Exit(lost=True, end_class=REJECTED, detail=detail)
            else:
                missing.append(names[number])
        if not run.failed:
            self.executor.make_anew(gang, run, missing)

    def _report_placement(self, gang: Gang, run: Run, changed: Mapping[int, Pod]) -> None:
        """Reports the nodes that another scheduler has chosen, once each member has one."""
        if not (gang.job.placed_by and changed):
            return
        pods = [run.pods.get(slot.number) for slot in run.slots]
        nodes = [slot.node if pod is None else pod.spec.node_name for slot, pod in zip(run.slots, pods, strict=True)]
        placed = tuple(replace(slot, node=node) for slot, node in zip(run.slots, nodes, strict=True))
        if "" not in nodes and placed != run.slots:
            run.slots = placed
            self.parts.inject(JobEvent(gang.id, MembersPlaced(run.generation, run.placement)))

    def _report_container_restarts(self, gang: Gang, run: Run) -> None:
        count = run.pods.container_restarts
        if run.alone and not run.stopping and count != run.container_restarts:
            run.container_restarts = count
            self.parts.inject(JobEvent(gang.id, ContainersRestarted(run.generation, count)))

    def _stop(self, gang: Gang, run: Run, changed: Mapping[int, Pod]) -> tuple[dict[str, Any], ...]:
        """Deletes the living pods of a run, and the launchers' Jobs that could create more; returns these Jobs.

        Of pods that are left to end, deletes those that will never run, and such Jobs only together with their pods.
        """
        is_left = self._is_left_to_end(gang, run)
        pods = changed if run.cleaned_up_as is is_left else run.pods.by_number
        run.cleaned_up_as = is_left
        living = {number: pod for number, pod in pods.items() if number in run.tracker.alive}
        if is_left:
            never = partial(self.parts.gang_pods.will_never_run, gang, run)
            living = {number: pod for number, pod in living.items() if never(pod)}
        self.executor.deletion.delete(
            (pod for pod in living.values() if not is_leaving_within(pod, run.grace)), run.grace
        )
        if not is_left:
            self._clean_up(gang, run)
        succeeds = gang.status.target is Target.SUCCEED
        if succeeds or (is_left and run.made_by_others.isdisjoint(living)):
            return ()
        makers = self.parts.gang_pods.launchers.unended(gang.reference.owner_key)
        self.executor.upkeep.end_jobs(makers)
        return makers

    def _clean_up(self, gang: Gang, run: Run) -> None:
        """Deletes ended pods that the policy of an ending job names, and services without a pod, once for each run.

        The ended pods of a gang that restarts whole stay until its end is committed, which counts them.
        """
        target = gang.status.target
        if run.cleaned_up or run.updating_dependents or target not in (Target.SUCCEED, Target.FAIL, Target.SUSPEND):
            return
        run.cleaned_up = True
        key = gang.reference.owner_key
        ended = {
            pod.metadata.name: pod for pod in run.pods.all() if pod.metadata.controller == key and pod.status.has_ended
        }
        phases = {name: pod.status.phase for name, pod in ended.items()}
        gone = set(ended if target is Target.SUSPEND else pods_to_delete(gang.parsed, gang.status, phases))
        if run.alone:
            self.executor.deletion.delete((ended[name] for name in gone), 0)
        self.executor.upkeep.remove_services(gang, set(gang.pod_names(run)) - (ended.keys() - gone), run)

    def _is_left_to_end(self, gang: Gang, run: Run) -> bool:
        """Tells whether pods of a job that its pods have ended are left to end by themselves (cleanPodPolicy None)."""
        return run.alone and keeps_running_pods(gang.parsed, gang.status) and not gang.deleted

    def _set_alarm(self, gang: Gang, run: Run, changed: Mapping[int, Pod], now: int) -> None:
        image_pull_timeout = self.parts.gang_pods.image_pull_timeout
        images = [
            at for pod in changed.values() if (at := pod_ends.due(pod, image_pull_timeout)) is not None and at > now
        ]
        run.image_due = min([*images, *([run.image_due] if run.image_due else [])], default=0)
        if run.image_due and run.image_due <= now:
            run.image_due = 0
            self.parts.gang_pods.check_images(gang, run)
            run.pods.mark_all()
            self.changed.mark(gang)
        dues = [at for at in (run.tracker.due, run.image_due) if at and at > now]
        if dues:
            self.changed.mark_at(gang, min(dues))


def _to_be_bound(gang: Gang, run: Run, pods: Mapping[int, Pod]) -> Iterator[tuple[Pod, Slot]]:
    """Yields members that a launcher's Job has created for our scheduler, and their slots."""
    for number, pod in pods.items():
        waits = pod.spec.scheduler_name == SCHEDULER and not pod.spec.node_name
        if number < len(run.slots) and waits and not gang.is_member(pod.metadata.name):
            yield pod, run.slots[number]
