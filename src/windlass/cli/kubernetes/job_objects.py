"""Jobs as their objects tell: what the operator has written into them, read without it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from windlass.backends.kubernetes.client.object_reference import job_id
from windlass.backends.kubernetes.client.resources import Resource
from windlass.backends.kubernetes.gangs import stored_state
from windlass.backends.kubernetes.status.refusals import ACCEPTED
from windlass.core.model.job import Job, Role
from windlass.core.model.reasons import Reason
from windlass.core.model.status import TERMINAL, JobState, Phase, Status
from windlass.jobs.kubernetes.kinds import registry
from windlass.jobs.kubernetes.labels import ARRAY, CALLED
from windlass.jobs.kubernetes.manifest_reader import Fault
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.jobs.kubernetes.status.conditions import QUEUED, conditions_of

Manifest = Mapping[str, Any]
_NEVER = (Reason.NO_MATCHING_FLAVOR, Reason.MISCONFIGURED)
_NOT_SEEN = "the operator has not seen it yet"


@dataclass(frozen=True, slots=True)
class JobObject:
    """An object of one of our kinds."""

    resource: Resource
    manifest: Manifest

    @property
    def id(self) -> str:
        """What the job is called everywhere."""
        return job_id(self.resource.kind, self.namespace, self.name)

    @property
    def name(self) -> str:
        """The object's own."""
        return str(self.manifest["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """Where it is."""
        return str(self.manifest["metadata"]["namespace"])

    @property
    def array(self) -> str:
        """Of which array of the namespace it is one; "" if it is none."""
        return str((self.manifest["metadata"].get("labels") or {}).get(ARRAY, ""))

    @property
    def called(self) -> str:
        """The job's own name, which need not be the object's."""
        return str((self.manifest["metadata"].get("annotations") or {}).get(CALLED) or self.name)

    @property
    def made(self) -> str:
        """When the object was made, as text that sorts by time."""
        return str(self.manifest["metadata"].get("creationTimestamp") or "")

    @property
    def suspended(self) -> bool:
        """Whether its owner wants it suspended."""
        spec = self.manifest.get("spec") or {}
        policy = spec if self.resource.kind == "TrainingJob" else spec.get("runPolicy") or {}
        return bool(policy.get("suspend"))

    def parsed(self) -> ParsedJob | Fault:
        """What it asks for."""
        version = self.manifest.get("apiVersion") or self.resource.api_version
        return registry.read({**self.manifest, "apiVersion": version, "kind": self.resource.kind})

    def state(self) -> JobState:
        """The job and what has become of it, as it was committed last."""
        parsed = self.parsed()
        made = _milliseconds(self.made)
        if isinstance(parsed, Fault):
            broken = Status(Phase.FAILED, "Misconfigured", str(parsed), created_at=made, finished_at=made)
            return JobState(self.id, 0, Job(self.name, (Role(command=("",)),)), broken)
        kept = _stored(self.manifest)
        status = kept.status if kept else replace(_unheard(self.manifest), created_at=made)
        return JobState(self.id, kept.number if kept else 0, parsed.job, status)

    @property
    def never(self) -> str:
        """Why no state of its cluster could take it, if the operator has written so."""
        waits = (each for each in conditions_of(dict(self.manifest)) if each["type"] == QUEUED)
        told = next((each for each in waits if each.get("status") == "True"), {})
        return str(told["message"]) if told.get("reason") in _NEVER else ""

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self.state().status.phase in TERMINAL


def _unheard(manifest: Manifest) -> Status:
    """Of a job that the controller does not hold: the operator may have said why in a condition."""
    for each in conditions_of(dict(manifest)):
        if each["type"] == ACCEPTED and each.get("status") == "False":
            return Status(reason=str(each.get("reason", "")), message=str(each.get("message", "")))
    return Status(reason="NotSeen", message=_NOT_SEEN)


def _stored(manifest: Manifest) -> stored_state.Stored | None:
    try:
        return stored_state.read((manifest.get("status") or {}).get(stored_state.FIELD))
    except stored_state.UnreadableError:
        return None


def _milliseconds(moment: str) -> int:
    try:
        return int(datetime.fromisoformat(moment).timestamp() * 1000)
    except ValueError:
        return 0
