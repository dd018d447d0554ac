"""Reads jobs and their states from their objects, in which the operator stores them. Needs no operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from windlass.backends.kubernetes.client.object_reference import job_id
from windlass.backends.kubernetes.client.resources import Resource
from windlass.backends.kubernetes.gangs import stored_state
from windlass.core.model.job import Job, Role
from windlass.core.model.reasons import Reason
from windlass.core.model.status import TERMINAL, JobState, Phase, Status
from windlass.jobs.kubernetes.job_patches import NOTEBOOK, has_run_policy, is_stopped
from windlass.jobs.kubernetes.kinds import registry
from windlass.jobs.kubernetes.labels import ARRAY, JOB_NAME_ANNOTATION
from windlass.jobs.kubernetes.manifest_reader import Fault
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.jobs.kubernetes.status.conditions import ACCEPTED, FAILED, QUEUED, conditions_of, is_true
from windlass.jobs.kubernetes.status.status_times import milliseconds
from windlass.jobs.kubernetes.train_runtimes import NOT_FOUND

Manifest = Mapping[str, Any]
_UNPLACEABLE = (Reason.NO_MATCHING_FLAVOR, Reason.MISCONFIGURED)
_NOT_SEEN = "the operator has not seen it yet"


@dataclass(frozen=True, slots=True)
class JobObject:
    """An object of a job kind."""

    resource: Resource
    manifest: Manifest

    @property
    def id(self) -> str:
        """Returns the job's id."""
        return job_id(self.resource.kind, self.namespace, self.name)

    @property
    def name(self) -> str:
        """Returns the name of the object."""
        return str(self.manifest["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """Returns the namespace of the object."""
        return str(self.manifest["metadata"]["namespace"])

    @property
    def array(self) -> str:
        """Returns the name of its array; "" if it is not a member of one."""
        return str((self.manifest["metadata"].get("labels") or {}).get(ARRAY, ""))

    @property
    def job_name(self) -> str:
        """Returns the name that the user gave the job, which may differ from that of the object."""
        return str((self.manifest["metadata"].get("annotations") or {}).get(JOB_NAME_ANNOTATION) or self.name)

    @property
    def created(self) -> str:
        """Returns the creation time of the object as text that sorts by time."""
        return str(self.manifest["metadata"].get("creationTimestamp") or "")

    @property
    def has_run_policy(self) -> bool:
        """Whether its kind has the fields of its operation in `spec.runPolicy`, and not in `spec` itself."""
        return has_run_policy(self.resource.kind)

    @property
    def suspended(self) -> bool:
        """Whether its specification says that it is suspended."""
        if self.resource.kind == NOTEBOOK:
            return is_stopped(self.manifest)
        policy = self.manifest.get("spec")
        if self.has_run_policy:
            policy = policy.get("runPolicy") if isinstance(policy, Mapping) else None
        return isinstance(policy, Mapping) and bool(policy.get("suspend"))

    def parsed(self) -> ParsedJob | Fault:
        """Returns the parsed job, or the fault of its manifest."""
        version = self.manifest.get("apiVersion") or self.resource.api_version
        return registry.read({**self.manifest, "apiVersion": version, "kind": self.resource.kind})

    def state(self) -> JobState:
        """Returns the job with its last committed status."""
        parsed = self.parsed()
        created_at = milliseconds(self.created) or 0
        if isinstance(parsed, Fault):
            # only the operator reads the runtimes of a cluster: a job that it has not accepted has its conditions
            waits = parsed.reason == NOT_FOUND and not is_true(conditions_of(dict(self.manifest)), FAILED)
            why = _uncommitted_status(self.manifest) if waits else Status(Phase.FAILED, "Misconfigured", str(parsed))
            found = replace(why, created_at=created_at, finished_at=None if waits else created_at)
            return JobState(self.id, 0, Job(self.name, (Role(command=("",)),)), found)
        stored_state = _stored(self.manifest)
        status = (
            stored_state.status if stored_state else replace(_uncommitted_status(self.manifest), created_at=created_at)
        )
        return JobState(self.id, stored_state.number if stored_state else 0, parsed.job, status)

    @property
    def unplaceable_reason(self) -> str:
        """Returns why it fits no state of this cluster, if the operator has stored such a reason, else ""."""
        queued = (each for each in conditions_of(dict(self.manifest)) if each["type"] == QUEUED)
        condition = next((each for each in queued if each.get("status") == "True"), {})
        return str(condition["message"]) if condition.get("reason") in _UNPLACEABLE else ""

    @property
    def ended(self) -> bool:
        """Whether its phase is terminal."""
        return self.state().status.phase in TERMINAL


def _uncommitted_status(manifest: Manifest) -> Status:
    """Returns the status of a job that the operator has not admitted, with the reason of its condition if any."""
    for each in conditions_of(dict(manifest)):
        if each["type"] == ACCEPTED and each.get("status") == "False":
            return Status(reason=str(each.get("reason", "")), message=str(each.get("message", "")))
    return Status(reason="NotSeen", message=_NOT_SEEN)


def _stored(manifest: Manifest) -> stored_state.Stored | None:
    try:
        return stored_state.read((manifest.get("status") or {}).get(stored_state.FIELD))
    except stored_state.UnreadableError:
        return None
