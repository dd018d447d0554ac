"""Controls the gangs of our own kinds: turns pod events into events for the controller, and its commands into pods.

The events of one gang are gathered until `look`, which tells the run of the gang what its pods have come to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.client.owners import controller_of
from windlass.backends.kubernetes.cluster.cluster_monitor import ClusterMonitor
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.gangs.run import Run, Seen, slots
from windlass.backends.kubernetes.jobs import pod_restarts
from windlass.backends.kubernetes.jobs.changed_gangs import ChangedGangs
from windlass.backends.kubernetes.jobs.job_store import JobStore
from windlass.backends.kubernetes.pods import gang_pods, pod_ends
from windlass.backends.kubernetes.pods.launcher_jobs import LauncherJobs
from windlass.backends.kubernetes.pods.pod_ends import is_running
from windlass.backends.kubernetes.pods.pod_executor import PodExecutor
from windlass.backends.kubernetes.pods.pod_store import PodStore
from windlass.backends.kubernetes.pods.standby_pods import StandbyPods
from windlass.backends.kubernetes.status import status_writer
from windlass.backends.port import JobEvent, WorldEvent
from windlass.core.lifecycle.events import GangGone
from windlass.core.model.elastic_size import sized
from windlass.core.model.status import Phase, Placement, Status
from windlass.jobs.kubernetes.status.clean_up import left_over
from windlass.jobs.kubernetes.status.serving_members import serving


@dataclass(frozen=True, slots=True)
class Cluster:
    """The parts of the backend that a gang's controller uses."""

    pods: PodStore
    launchers: LauncherJobs
    monitor: ClusterMonitor
    now: Callable[[], int]
    inject: Callable[[WorldEvent], None]
    image_patience: int
    """Ms for which an image may fail to be pulled."""


class GangController:
    """One object for all gangs of our kinds. `report`: writes the status of a gang that has changed."""

    def __init__(
        self,
        store: JobStore,
        changed: ChangedGangs,
        executor: PodExecutor,
        standby: StandbyPods,
        cluster: Cluster,
        report: Callable[[Gang], None],
    ) -> None:
        self._store, self._executor, self._standby, self._cluster = store, executor, standby, cluster
        self._changed, self._report = changed, report

    # --- events and commands --------------------------------------------------------------------------

    def recover(self) -> None:
        """Take over the runs that an earlier controller has left."""
        for gang in self._store:
            if gang.stored is not None and not gang.status.gone:
                gang.run = self._recovered(gang)
            self._changed.mark(gang)

    def owner(self, pod: Pod) -> Gang | None:
        """The gang that a pod belongs to."""
        uid = controller_of(pod)
        return self._store.owner(self._cluster.launchers.owner(uid) or uid)

    def launch(self, job_id: str, generation: int, placement: Placement) -> None:
        """Create and bind the pods of a generation."""
        gang = self._store.get(job_id)
        if gang is None or (gang.run is not None and gang.run.generation >= generation and gang.run.ordered):
            return
        if gang.run is None or gang.run.generation != generation:
            gang.run = _run(gang, generation, placement)
        gang.run.ordered = True
        self._executor.launch(gang, gang.run)
        self._changed.mark(gang)

    def stop(self, job_id: str, generation: int, grace: int) -> None:
        """Delete the pods of a generation. `grace` in ms."""
        gang = self._store.get(job_id)
        run = gang.run if gang is not None else None
        if gang is None or run is None or run.generation != generation:
            self._cluster.inject(JobEvent(job_id, GangGone(generation)))
            return
        run.stopping, run.grace = True, max(1, -(-grace // 1000))
        self._changed.mark(gang)

    def look(self, now: int) -> None:
        """Act on everything that has changed."""
        for gang in self._changed.take(now):
            if self._store.get(gang.id) is not gang:  # its object is gone, and perhaps another one has its name
                continue
            if gang.run is None:
                self._standby.prepare(gang)
                self._report(gang)
            else:
                self._look_at_run(gang, gang.run, now)

    def status_of(self, gang: Gang, status: Status | None = None) -> Mapping[str, Any]:
        """The status to be written into a gang's object. `status`: one that is being committed."""
        pods = self._pods(gang, gang.run) if gang.run is not None else {}
        return status_writer.status_of(gang, status or gang.status, pods, self._cluster.now())

    def clean_up(self, gang: Gang) -> tuple[Pod, ...]:
        """Delete what its policy says of a gang that has ended; the pods that the controller lets go of."""
        if gang.run is None:
            return ()
        pods, gang.run = self._pods(gang, gang.run), None
        phases = {pod.metadata.name: pod.status.phase for pod in pods.values()}
        gone = set(left_over(gang.parsed, phases))
        self._executor.dismiss((pod for pod in pods.values() if pod.metadata.name in gone), 0)
        self._executor.remove_services(gang, gone)
        return tuple(pods.values())

    # --- looking --------------------------------------------------------------------------------------

    def _look_at_run(self, gang: Gang, run: Run, now: int) -> None:
        pods = self._pods(gang, run)
        looks = gang_pods.seen(pods, self._cluster.monitor.is_dead, now, self._cluster.image_patience)
        if run.stopping:
            makers = self._stop(gang, run, pods, looks)
        else:
            makers = ()
            self._keep_running(gang, run, pods, now)
        self._report(gang)
        for event in run.hear(looks, more_may_come=bool(makers)):
            self._cluster.inject(JobEvent(gang.id, event))
        patience = self._cluster.image_patience
        dues = [at for pod in pods.values() if (at := pod_ends.due(pod, patience)) and at > now]
        if dues:
            self._changed.mark_at(gang, min(dues))

    def _keep_running(self, gang: Gang, run: Run, pods: Mapping[int, Pod], now: int) -> None:
        """Bind late pods, delete those of earlier generations, see to dependent objects, restart pods one by one."""
        if run.ordered:
            self._executor.bind(gang, run, gang_pods.to_be_bound(gang, run, pods))
        if not run.launched:
            return
        if not run.busy:
            self._executor.dismiss(gang_pods.left_behind(gang, run, self._cluster.pods), run.grace)
        self._executor.accompany(gang, run, (pod.metadata.name for pod in pods.values() if is_running(pod)))
        if run.judged and not (run.busy or run.failed):
            jobs = self._cluster.launchers.of(gang.home.uid)
            to_do = pod_restarts.look(gang, run, pods, jobs, self._cluster.monitor.is_closed, now)
            self._executor.dismiss(to_do.dismiss, run.grace)
            self._executor.make_anew(gang, run, to_do.make)

    def _stop(
        self, gang: Gang, run: Run, pods: Mapping[int, Pod], looks: Mapping[int, Seen]
    ) -> tuple[dict[str, Any], ...]:
        """Delete the living pods of a run, and the launchers' Jobs that could make more of them, which it returns."""
        if run.busy or self._is_left_to_end(gang, run):
            return ()
        makers = () if run.succeeded else self._cluster.launchers.unended(gang.home.uid)
        self._executor.dismiss(gang_pods.to_be_deleted(pods, looks), run.grace)
        self._executor.end_jobs(makers)
        return makers

    def _is_left_to_end(self, gang: Gang, run: Run) -> bool:
        """Whether living pods of a job that its own pods have ended may end by themselves (cleanPodPolicy None)."""
        return run.outcome is not None and gang.parsed.policy.clean == "None" and not gang.deleted

    def _recovered(self, gang: Gang) -> Run:
        """The run of a gang as an earlier controller left it."""
        status = gang.status
        assert status.placement is not None  # noqa: S101 - a gang that is not gone has a placement
        run = _run(gang, status.generation, status.placement)
        run.started = run.launched = status.phase is not Phase.ADMITTED
        run.told = {slot.number for slot in run.slots if status.done >> slot.number & 1}
        if status.target is not None:  # the earlier controller has reported every end up to then
            looks = gang_pods.seen(self._pods(gang, run), self._cluster.monitor.is_dead, self._cluster.now(), 0)
            run.told |= {slot.number for slot in run.slots if gang_pods.is_over(looks, slot.number)}
        return run

    def _pods(self, gang: Gang, run: Run) -> dict[int, Pod]:
        return gang_pods.pods_of(gang, run, self._cluster.pods, self._cluster.launchers)


def _run(gang: Gang, generation: int, placement: Placement) -> Run:
    members = slots(sized(gang.job, placement), placement)
    return Run(generation, members, judged=gang.judged, servers=serving(gang.parsed))
