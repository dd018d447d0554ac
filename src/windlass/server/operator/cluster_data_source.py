"""The API's data source for a cluster: facts of its nodes and of its state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from windlass import wire
from windlass.backends.kubernetes.backend import KubernetesBackend
from windlass.backends.kubernetes.cluster.empty_cluster import snapshot_emptier
from windlass.backends.kubernetes.status.job_waits import container_wait
from windlass.backends.kubernetes.status.member_waits import member_wait
from windlass.backends.kubernetes.status.restarting_members import restart_wait
from windlass.core.model.diagnosed_cause import DiagnosedCause
from windlass.core.model.job import Job
from windlass.core.model.reservation import Reservation
from windlass.core.model.status import JobState
from windlass.server.data_source import SnapshotFilter
from windlass.server.operator.cluster_job_records import ClusterJobRecords
from windlass.server.operator.history.store import JobHistory
from windlass.server.operator.pod_tasks import PodTask

_HIDDEN = "(hidden)"


class ClusterDataSource:
    """The interface `data_source.DataSource` for a cluster."""

    def __init__(self, backend: KubernetesBackend, history: JobHistory, records: ClusterJobRecords) -> None:
        self._backend, self._history = backend, history
        self.records = records

    def now(self) -> int:
        """Time of the backend's clock, in ms."""
        return self._backend.now()

    def location(self) -> str:
        """Address of the API server, whose objects hold all state."""
        return self._backend.connection.access.server

    def cluster(self) -> str:
        """Number of nodes and address of the API server."""
        count = len(self._backend.cluster.picture.objects)
        return f"{count} node{'s' * (count != 1)} of {self.location()}"

    def trouble(self) -> str:
        """Reason why history cannot be written; empty if it can."""
        return self._history.writer.trouble

    def redact(self, job: Job) -> Job:
        """The job without values of variables, which may be secrets. Users with read access find them in the object.

        The key of a function's result is shown, because the result is read after the object has been deleted, too.
        """
        return replace(job, roles=tuple(replace(role, env=_shown(role.env), pod="") for role in job.roles))

    def is_declared(self, _reservation: Reservation) -> bool:
        """False: every reservation is an object, and can be deleted."""
        return False

    def rank_resources(self, _state: JobState, _tasks: Sequence[PodTask]) -> list[str]:
        """Empty: a pod's resources depend on its image and its node."""
        return []

    def without_others(self) -> SnapshotFilter:
        """Removes external pods."""
        picture = self._backend.cluster.picture
        return snapshot_emptier(tuple(picture.objects.values()), picture.view)

    def member_wait(self, job_id: str) -> tuple[str, str] | None:
        """Why pods of a started job do not run: an image, another scheduler, or a container that cannot go on."""
        gang = self._backend.jobs.get(job_id)
        if gang is None:
            return None
        return member_wait(gang) or restart_wait(gang, self._backend.now()) or container_wait(gang)

    def wait_verdict(self, job_id: str) -> DiagnosedCause | None:
        """Verdict on what keeps a job from running."""
        gang = self._backend.jobs.get(job_id)
        return gang.notes.wait_verdict if gang is not None else None

    def held_jobs(self) -> Sequence[JobState]:
        """Jobs whose volumes or priority classes are missing, and external pods whose gang is incomplete."""
        held = [gang.state for gang in self._backend.jobs if gang.fit.waiting_reason]
        return [*held, *self._backend.external.incomplete()]


def _shown(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value if name == wire.RESULT_KEY else _HIDDEN for name, value in variables.items()}
