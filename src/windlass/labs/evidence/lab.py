"""The view of a lab that `check.py` gets: narrow, typed and read-only."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from windlass.labs.cluster_requests import get_object, get_text
from windlass.labs.errors import LabStateError
from windlass.labs.evidence import job_records, lab_files
from windlass.labs.evidence.checkpoint_records import LabCheckpoint, read_checkpoints
from windlass.labs.evidence.findings import EvidenceError
from windlass.labs.evidence.job_records import MAX_LOG_LINES, LabJob, MetricSeries
from windlass.labs.evidence.lab_files import MAX_BYTES
from windlass.labs.lab_folders import LabFolders, namespace_of
from windlass.labs.lab_processes import LabProcess, lab_processes

if TYPE_CHECKING:
    from windlass.diagnose.lint.findings import LintFinding
    from windlass.diagnose.steps import CheckStep

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Lab:
    """Evidence about one started lab. Every method raises EvidenceError, which the engine reports as a finding."""

    id: str
    folders: LabFolders

    @property
    def namespace(self) -> str:
        """The lab's namespace on the cluster."""
        return namespace_of(self.id)

    def jobs(self) -> Sequence[LabJob]:
        """Returns the jobs of `windlass run` and `submit` in this lab, oldest first."""
        return job_records.read_jobs(self.folders.state(self.id))

    def logs(self, job: str, rank: int | None = None, generation: int | None = None) -> Sequence[str]:
        """Returns the output of a job by its id; of every rank, and of the latest generation, if none is named."""
        return job_records.read_output(self.folders.state(self.id), job, rank, generation)

    def metrics(self, job: str) -> dict[str, MetricSeries]:
        """Returns the recorded series of a job by name, such as `windlass_train_loss`."""
        return job_records.read_series(self.folders.state(self.id), job)

    def checkpoints(self, folder: str) -> Sequence[LabCheckpoint]:
        """Returns the checkpoints in a folder of the learner, verified byte by byte, newest first."""
        return read_checkpoints(self.folders.learner(self.id) / folder)

    def files(self, pattern: str) -> Sequence[str]:
        """Returns the names of the learner's files that match a pattern, such as `runs/*.json`."""
        return lab_files.file_names(self.folders.learner(self.id), pattern)

    def file(self, name: str) -> str | None:
        """Returns the text of a learner's file; None if there is none. Its content is untrusted."""
        return lab_files.read_file(self.folders.learner(self.id), name)

    def json(self, name: str) -> Any:
        """Returns the content of a learner's JSON file; None if there is none. Its content is untrusted."""
        return lab_files.read_json(self.folders.learner(self.id), name)

    def record(self, name: str, kind: type[T]) -> T | None:
        """Returns the content of a learner's JSON file as a record of this kind; None if there is none."""
        return lab_files.read_record(self.folders.learner(self.id), name, kind)

    def lint(self, name: str) -> Sequence[LintFinding]:
        """Returns the findings of `windlass lint` in a learner's file; comments that ignore rules are not heeded."""
        from windlass.labs.evidence.manifest_files import lint_manifests  # noqa: PLC0415 - loads all rules

        return lint_manifests(name, self.file(name) or "")

    def pods_of(self, name: str) -> Sequence[Mapping[str, Any]]:
        """Returns the pods that the jobs in a learner's file of manifests become, as `windlass render` prints them."""
        from windlass.labs.evidence.manifest_files import rendered_pods  # noqa: PLC0415 - as above

        return rendered_pods(name, self.file(name) or "")

    def machine(self, folder: str) -> Mapping[str, CheckStep]:
        """Returns what `windlass doctor host --root FOLDER` finds in a learner's folder, by the name of the step."""
        from windlass.labs.evidence.machine_files import judge_machine  # noqa: PLC0415 - as above

        return judge_machine(self.folders.learner(self.id) / folder)

    def report(self, job: str, kind: type[T]) -> T | None:
        """Returns `runs/JOB.json`, if the output of the job's rank 0 has the digest of the file; else None.

        A file that was copied from another run has another digest than the one that this job printed.
        """
        name = f"runs/{job}.json"
        digest = hashlib.sha256((self.file(name) or "").encode()).hexdigest()[:16]
        return self.record(name, kind) if f"wrote {name} {digest}" in self.logs(job, rank=0) else None

    def kube(self, path: str) -> Any:
        """Returns the answer of the API server to GET; None if there is no such object.

        `path`: relative to the lab's namespace as in `pods`, `pods/first` or `batch/v1/jobs`, or absolute as in
        `/api/v1/nodes`. The answer is untrusted.
        """
        return self._ask(get_object, path)

    def pod_log(self, name: str) -> Sequence[str]:
        """Returns the last lines of a pod with one container; none of a pod that is gone. Untrusted."""
        text: str | None = self._ask(get_text, f"pods/{name}/log?limitBytes={MAX_BYTES}&tailLines={MAX_LOG_LINES}")
        return (text or "").splitlines()

    def _ask(self, request: Callable[[Path, str], T], path: str) -> T:
        try:
            return request(self.folders.kubeconfig(self.id), _absolute(path, self.namespace))
        except LabStateError as error:
            what, _, fix = str(error).partition("\n")
            raise EvidenceError(what, f"{fix}; then windlass lab start {self.id}") from None

    def processes(self) -> Sequence[LabProcess]:
        """Returns the living processes of this lab: its jobs, its services, and programs that run its files."""
        return list(lab_processes(self.folders, self.id))


def _absolute(path: str, namespace: str) -> str:
    """Returns the path of a request: `batch/v1/jobs/x` has a group and a version before the resource."""
    if path.startswith("/"):
        return path
    first, _, rest = path.partition("/")
    version, _, resource = rest.partition("/")
    if version.startswith("v") and version[1:2].isdigit() and resource:
        return f"/apis/{first}/{version}/namespaces/{namespace}/{resource}"
    return f"/api/v1/namespaces/{namespace}/{path}"
