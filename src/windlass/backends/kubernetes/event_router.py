"""Passes changes of pods and batch Jobs to the parts of the backend that they concern."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from windlass.backends.kubernetes.client.object_cache import Change
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.client.resources import JOBS
from windlass.backends.kubernetes.cluster.cluster_monitor import ClusterMonitor
from windlass.backends.kubernetes.external.external_gangs import ExternalGangs
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.jobs.changed_gangs import ChangedGangs
from windlass.backends.kubernetes.jobs.gang_controller import GangController
from windlass.backends.kubernetes.jobs.job_store import JobStore
from windlass.backends.kubernetes.pods.gang_pods import GangPods
from windlass.backends.kubernetes.pods.launcher_jobs import LauncherJobs
from windlass.backends.kubernetes.pods.pod_deletion import PodDeletion


@dataclass(slots=True)
class EventRouter:
    """Dispatcher of the changes of pods and batch Jobs.

    Our own gangs and the resources of pods are followed only while this process leads.
    """

    monitor: ClusterMonitor
    jobs: JobStore
    gangs: GangController
    gang_pods: GangPods
    changed: ChangedGangs
    launchers: LauncherJobs
    external: ExternalGangs
    deletion: PodDeletion
    leads: bool = False

    def see_pod(self, pod: Pod, *, there: bool) -> None:
        """Records a pod as it is now, or as it was when it was deleted."""
        gang = self.gangs.owner(pod)
        if gang is None:
            self.external.see_pod(pod, there=there)
        if not self.leads:
            return
        if there:
            self._count(pod, gang)
        else:
            self.monitor.state.lose_pod(pod)
            self.deletion.forget(pod)
        if gang is not None:
            if gang.run is not None:
                self.gang_pods.see(gang, gang.run, pod, there=there)
            self.changed.mark(gang)
        self.monitor.check()

    def see_jobs(self, changes: Sequence[Change[dict[str, Any]]]) -> None:
        """Records changes of batch Jobs, which may be launchers or groups of external pods."""
        for change in changes:
            job, there = change.object, change.kind != "deleted"
            self.external.see_object(JOBS, job, there=there)
            gang = self.jobs.get_by_uid(self.launchers.see(job, there=there))
            if gang is not None and self.leads:
                self.gangs.see_launcher(gang)

    def recount(self, pod: Pod) -> None:
        """Counts a pod again after the controller has begun, or ceased, to account for its resources."""
        self._count(pod, self.gangs.owner(pod))
        self.monitor.check()

    def _count(self, pod: Pod, gang: Gang | None) -> None:
        """Counts a pod's resources on its node, unless the controller accounts for them."""
        ours = self.external.holds(pod) if gang is None else gang.run is not None and not gang.run.gone
        self.monitor.state.see_pod(pod, ours=ours)
