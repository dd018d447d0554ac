"""The status that another operator has written into a job's object, in the terms of the core.

A job that has ended stays ended, with the times of its object; one that is suspended stays suspended. Whether a job
runs shows in its pods, not in its conditions: an operator that was stopped may have written neither. A `Failed` that
Windlass has written for a job that it did not accept is no end: the fault may have been repaired since.
Sources: kubeflow/training-operator v1.9, pkg/util/status.go, pkg/controller.v1/common/job.go (CleanupJob);
kubeflow/mpi-operator v0.8, pkg/controller/mpi_job_controller_status.go; kubeflow/trainer v2, trainjob_types.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.core.model.status import Phase, Status
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.jobs.kubernetes.pods.pod_assembly import TRAINER_GROUP
from windlass.jobs.kubernetes.status.conditions import (
    ACCEPTED,
    COMPLETE,
    FAILED,
    RUNNING,
    SUCCEEDED,
    SUSPENDED,
    Condition,
    Conditions,
    conditions_of,
    is_true,
)
from windlass.jobs.kubernetes.status.status_times import milliseconds


class ContradictoryStatusError(ValueError):
    """A status with two different ends: whether the job may run again is unknown."""


def read_end(parsed: ParsedJob, now: int) -> Status | None:
    """Returns the status of a job that has ended according to its conditions; None if it has not.

    `now`: its end in ms if the object names no plausible time: a time to live never begins before the job's creation.
    Raises ContradictoryStatusError.
    """
    conditions = _without_refusal(conditions_of(parsed.manifest))
    success = COMPLETE if parsed.api_version.startswith(TRAINER_GROUP) else SUCCEEDED
    ends = [each for each in conditions if each["type"] in (success, FAILED) and each.get("status") == "True"]
    if not ends:
        return None
    kinds = {each["type"] for each in ends}
    if len(kinds) > 1:
        raise ContradictoryStatusError(
            f"its status has both conditions {success} and {FAILED}: set one of them to False. "
            "Until then the job neither runs nor is deleted"
        )
    end, created = ends[-1], created_at(parsed)
    return Status(
        phase=Phase.SUCCEEDED if end["type"] == success else Phase.FAILED,
        reason=_text(end, "reason"),
        message=_text(end, "message"),
        created_at=created,
        queued_at=created,
        started_at=started_at(parsed),
        finished_at=_finished_at(parsed, end, created, now),
    )


def has_ended(manifest: Mapping[str, Any]) -> bool:
    """Tells whether the conditions of an object name an end, whatever its spec says."""
    conditions = _without_refusal(conditions_of(dict(manifest)))
    return any(is_true(conditions, each) for each in (SUCCEEDED, FAILED, COMPLETE))


def _without_refusal(conditions: Conditions) -> Conditions:
    """The conditions without a `Failed` for the reason for which Windlass has not accepted the job."""
    refused = [each.get("message") for each in conditions if _is(each, ACCEPTED, "False")]
    return tuple(each for each in conditions if not (_is(each, FAILED, "True") and each.get("message") in refused))


def _is(condition: Condition, kind: str, status: str) -> bool:
    return bool(condition["type"] == kind and condition.get("status") == status)


def is_suspended(parsed: ParsedJob) -> bool:
    """Tells whether a job is suspended according to its conditions."""
    conditions = conditions_of(parsed.manifest)
    return is_true(conditions, SUSPENDED) and not is_true(conditions, RUNNING)


def suspended_status(parsed: ParsedJob) -> Status:
    """Returns the status of a suspended job."""
    return Status(phase=Phase.SUSPENDED, reason=SUSPENDED, created_at=created_at(parsed))


def created_at(parsed: ParsedJob) -> int:
    """Returns the creation time of a job's object in ms; 0 if it has none."""
    return milliseconds(parsed.manifest["metadata"].get("creationTimestamp")) or 0


def started_at(parsed: ParsedJob) -> int | None:
    """Returns `status.startTime` in ms, if it is a time after the creation of the job."""
    return _not_before(created_at(parsed), milliseconds(_status(parsed).get("startTime")))


def _finished_at(parsed: ParsedJob, end: Condition, created: int, now: int) -> int:
    written = (_status(parsed).get("completionTime"), end.get("lastTransitionTime"), end.get("lastUpdateTime"))
    times = (_not_before(created, milliseconds(each)) for each in written)
    return next((at for at in times if at is not None), now)


def _not_before(created: int, at: int | None) -> int | None:
    return at if at is not None and at >= created else None


def _status(parsed: ParsedJob) -> Mapping[str, Any]:
    found = parsed.manifest.get("status")
    return found if isinstance(found, Mapping) else {}


def _text(condition: Condition, name: str) -> str:
    found = condition.get(name)
    return found if isinstance(found, str) else ""
