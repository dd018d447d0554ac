"""JobSets that Kubeflow's trainer has created for TrainJobs, which run them after a takeover.

The pods of a JobSet belong to its Jobs, and the controllers of Jobs and JobSets create them again: they cannot become
a generation of ours. So the JobSet goes on under its own controller, its pods use their nodes like other foreign pods,
and the TrainJob waits for its end, which becomes the end of the TrainJob.
Sources: sigs.k8s.io/jobset v0.10, api/jobset/v1alpha2 (conditions Completed and Failed); kubeflow/trainer v2,
pkg/runtime/framework/plugins/jobset (the JobSet bears the name of its TrainJob, which controls it).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from windlass.backends.kubernetes.client.owners import owner_of
from windlass.core.model.status import Phase, Status
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.jobs.kubernetes.pods.pod_assembly import TRAINER_GROUP
from windlass.jobs.kubernetes.status.conditions import conditions_of
from windlass.jobs.kubernetes.status.foreign_status import created_at
from windlass.jobs.kubernetes.status.status_times import milliseconds

_PHASES = {"Completed": Phase.SUCCEEDED, "Failed": Phase.FAILED}


@dataclass(frozen=True, slots=True)
class TrainJobSets:
    """Lookup of the JobSets of TrainJobs. `find`: returns the JobSet of a namespace and name, if it exists."""

    find: Callable[[str, str], Mapping[str, Any] | None]

    def trouble(self, parsed: ParsedJob) -> str:
        """Returns why a TrainJob may not start: its JobSet goes on. Returns "" for other jobs."""
        job_set = self._of(parsed)
        if job_set is None or _end_of(job_set) or (job_set.get("spec") or {}).get("suspend"):
            return ""
        return (
            f"its JobSet {parsed.namespace}/{parsed.name}, which another operator has created, goes on; "
            "the job waits until that has ended or is deleted"
        )

    def ended_status(self, parsed: ParsedJob, now: int) -> Status | None:
        """Returns the status of a TrainJob whose JobSet has ended; None for other jobs. `now`: for a missing time."""
        job_set = self._of(parsed)
        end = _end_of(job_set) if job_set is not None else None
        if end is None:
            return None
        created = created_at(parsed)
        finished, message = milliseconds(end.get("lastTransitionTime")), str(end.get("message") or "")
        return Status(
            phase=_PHASES[end["type"]],
            reason=str(end.get("reason") or ""),
            message=message,
            created_at=created,
            queued_at=created,
            finished_at=finished if finished is not None and finished >= created else now,
        )

    def _of(self, parsed: ParsedJob) -> Mapping[str, Any] | None:
        if not parsed.api_version.startswith(TRAINER_GROUP):
            return None
        found = self.find(parsed.namespace, parsed.name)
        owner = owner_of(found) if found is not None else None
        return found if owner is not None and owner.uid == parsed.uid else None


def _end_of(job_set: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Returns the condition of a JobSet that has ended."""
    ends = (each for each in conditions_of(dict(job_set)) if each["type"] in _PHASES)
    return next((each for each in ends if each.get("status") == "True"), None)
