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
from windlass.backends.kubernetes.jobs.gang_controller import GangController
from windlass.backends.kubernetes.jobs.job_store import JobStore
from windlass.backends.kubernetes.pods.launcher_jobs import LauncherJobs
from windlass.backends.kubernetes.pods.pod_executor import PodExecutor


@dataclass(slots=True)
class EventRouter:
    """Our own gangs and the resources of pods are followed only while this process leads."""

    monitor: ClusterMonitor
    jobs: JobStore
    gangs: GangController
    launchers: LauncherJobs
    external: ExternalGangs
    executor: PodExecutor
    leads: bool = False

    def see_pod(self, pod: Pod, *, there: bool) -> None:
        """Records a pod as it is now, or as it was when it was deleted."""
        self.external.see_pod(pod, there=there)
        if not self.leads:
            return
        if there:
            self.count(pod)
        else:
            self.monitor.state.lose_pod(pod)
            self.executor.deletion.forget(pod)
        if (gang := self.gangs.owner(pod)) is not None:
            self.gangs.see_pod(gang, pod, there=there)
        self.monitor.check()

    def see_jobs(self, changes: Sequence[Change[dict[str, Any]]]) -> None:
        """Records changes of batch Jobs, which may be launchers or groups of external pods."""
        for change in changes:
            job, there = change.object, change.kind != "deleted"
            self.external.see_object(JOBS, job, there=there)
            gang = self.jobs.owner(self.launchers.see(job, there=there))
            if gang is not None and self.leads:
                self.gangs.see_launcher(gang)

    def count(self, pod: Pod) -> None:
        """Counts a pod's resources on its node, unless the controller accounts for them."""
        gang = self.gangs.owner(pod)
        ours = gang is not None and gang.run is not None and not gang.run.gone
        self.monitor.count(pod, ours=ours or self.external.holds(pod))
