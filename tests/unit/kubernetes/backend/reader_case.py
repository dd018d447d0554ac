"""A job reader with its store, and objects for it to read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from windlass.backends.kubernetes.client.resources import named
from windlass.backends.kubernetes.cluster.job_resolution import ResolvedJob
from windlass.backends.kubernetes.gangs import stored_state
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.gangs.stored_state import Stored
from windlass.backends.kubernetes.jobs.job_reader import JobReader
from windlass.backends.kubernetes.jobs.job_reports import JobReports
from windlass.backends.kubernetes.jobs.job_specs import JobSpecs
from windlass.backends.kubernetes.jobs.job_store import JobStore
from windlass.backends.kubernetes.status.refusals import Refusal
from windlass.backends.port import BackendEvent
from windlass.core.model.status import JobState, Phase, Placement, Status
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.jobs.kubernetes.settings import Settings

TRAINING = named("windlass.dev/v1alpha1", "trainingjobs", "TrainingJob")
PYTORCH = named("kubeflow.org/v1", "pytorchjobs", "PyTorchJob")


@dataclass
class ReaderCase:
    """A job reader with its store, and the events, refusals and changes that it has reported."""

    events: list[BackendEvent] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    changed: list[Gang] = field(default_factory=list)
    adopted: list[Gang] = field(default_factory=list)
    trouble: str = ""
    to_choose: tuple[str, ...] = ()
    near: dict[str, str] = field(default_factory=dict)
    """The node selector that volumes add."""
    denied: str = ""
    """A queue that is closed to the namespace."""

    def __post_init__(self) -> None:
        self.store = JobStore()
        reports = JobReports(self.events.append, self.refused.append, self.store.allocate_number)
        self.specs = JobSpecs(self.store, reports, self.resolve_names, self.events.append, self.changed.append)
        self.reader = JobReader(self.store, self.specs, reports, Settings(), self.adopted.append)

    def resolve_names(self, parsed: ParsedJob) -> ResolvedJob:
        roles = tuple(replace(role, node_selector=self.near) for role in parsed.job.roles)
        asked = parsed.run_policy.queue or "default"
        is_denied = asked == self.denied
        job = replace(parsed.job, roles=roles, queue="default" if is_denied else asked)
        return ResolvedJob(job, self.to_choose, self.trouble, denial="closed" if is_denied else "")

    def recover(self) -> list[JobState]:
        return [*self.reader.recover(), *self.reader.begin(self.adopted.append)]

    def take_events(self) -> list[BackendEvent]:
        events, self.events[:] = list(self.events), []
        return events


def training(
    name: str = "digits", uid: str = "u1", version: int = 1, generation: int = 1, **spec: Any
) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": "ml",
        "uid": uid,
        "resourceVersion": str(version),
        "generation": generation,
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    spec = {"image": "x", "command": "python train.py", "nodes": 2, **spec}
    return {"apiVersion": "windlass.dev/v1alpha1", "kind": "TrainingJob", "metadata": metadata, "spec": spec}


def with_state(manifest: dict[str, Any], status: Status, number: int = 5) -> dict[str, Any]:
    return {**manifest, "status": {stored_state.FIELD: stored_state.to_patch(Stored(number, 3, status))}}


def commit(gang: Gang, status: Status) -> None:
    gang.stored = Stored(gang.number, 1, status)


RUNNING = Status(phase=Phase.RUNNING, generation=1, is_gone=False, placement=Placement({"worker": ("a", "b")}))
