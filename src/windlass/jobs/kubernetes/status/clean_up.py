"""Clean-up of the pods of a job that has ended, by its cleanPodPolicy."""

from __future__ import annotations

from collections.abc import Mapping

from windlass.core.lifecycle.failure import BACKOFF_LIMIT
from windlass.core.model.status import Phase, Status, Target
from windlass.jobs.kubernetes.parsed_job import ParsedJob

_LIVE = ("Running", "Pending")
"""A pending pod could still start."""
_DELETED = {"None": (), "Running": _LIVE, "All": (*_LIVE, "Succeeded", "Failed", "Unknown")}


def pods_to_delete(parsed: ParsedJob, status: Status, phases: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the pods to delete (their services have the same names): all pods, if the restart limit ended the job.

    `phases`: phases of pods by name.
    """
    failure = status.last_failure
    by_limit = (
        failure is not None and failure.member is None and failure.reason == status.reason == BACKOFF_LIMIT.reason
    )
    deleted = _DELETED["All" if by_limit else parsed.run_policy.clean_pod_policy]
    return tuple(name for name, phase in phases.items() if phase in deleted)


def keeps_running_pods(parsed: ParsedJob, status: Status) -> bool:
    """Whether pods and services are left alone: cleanPodPolicy None, and the job ended because of its members.

    A limit, a deadline, a user's request, or the end of the job's time to live ends them.
    """
    failure = status.last_failure
    by_member = failure is not None and failure.member is not None and failure.reason == status.reason
    failed = status.target is Target.FAIL or status.phase is Phase.FAILED
    ended = status.target is Target.SUCCEED or status.phase is Phase.SUCCEEDED or (failed and by_member)
    return ended and not status.expired and parsed.run_policy.clean_pod_policy == "None"
