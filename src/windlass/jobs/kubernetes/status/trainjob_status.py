"""The status of a TrainJob: the API's own kind of conditions, of which tools wait for three, and its jobs' counts.

Source: kubeflow/trainer v2.3, pkg/apis/trainer/v1alpha1; sigs.k8s.io/jobset v0.10, pkg/constants (reasons).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.core.model.status import Phase
from windlass.core.model.status import Status as Life
from windlass.jobs.kubernetes.parsed import Parsed
from windlass.jobs.kubernetes.status.conditions import QUEUED, Condition, Conditions, holds
from windlass.jobs.kubernetes.status.pod_counts import Counts

COMPLETE, FAILED, SUSPENDED = "Complete", "Failed", "Suspended"


def train_conditions(parsed: Parsed, life: Life, before: Conditions, waits: str, reason: str) -> list[Condition]:
    """Whose life is the core's: suspended or not, waiting or not, and how it ended. An end stays."""
    if holds(before, COMPLETE) or holds(before, FAILED):
        return list(before)
    new = {each["type"]: each for each in _told(parsed, life, before, waits, reason)}
    kept = [new.pop(each["type"], each) for each in before]
    return [*kept, *new.values()]


def _told(parsed: Parsed, life: Life, before: Conditions, waits: str, reason: str) -> Iterator[Condition]:
    if life.phase is Phase.SUSPENDED:
        yield _condition(SUSPENDED, True, "Suspended", "TrainJob is suspended")
    elif holds(before, SUSPENDED):
        yield _condition(SUSPENDED, False, "Resumed", "TrainJob is resumed")
    if life.phase is Phase.QUEUED:
        yield _condition(QUEUED, True, reason or life.reason or QUEUED, waits)
    elif holds(before, QUEUED):
        yield _condition(QUEUED, False, life.reason or str(life.phase), life.message)
    if life.phase is Phase.SUCCEEDED:
        yield _condition(COMPLETE, True, "AllJobsCompleted", f"TrainJob {parsed.name} is successfully completed")
    if life.phase is Phase.FAILED:
        yield _condition(FAILED, True, life.reason or "FailedJobs", life.message)


def _condition(kind: str, holds_now: bool, reason: str, message: str) -> Condition:  # noqa: FBT001 - private, one use
    return {"type": kind, "status": str(holds_now), "reason": reason, "message": message}


def jobs_status(parsed: Parsed, life: Life, counts: Mapping[str, Counts]) -> list[dict[str, Any]]:
    """Each of the runtime's jobs, of which every one is there once."""
    return [_job(each.type, each.count, counts.get(each.role, Counts()), life) for each in parsed.replicas]


def _job(name: str, pods: int, count: Counts, life: Life) -> dict[str, Any]:
    return {
        "name": name,
        "ready": int(count.active + count.succeeded >= pods),
        "succeeded": int(count.succeeded >= pods or life.phase is Phase.SUCCEEDED),
        "failed": int(life.phase is Phase.FAILED),
        "active": int(count.active > 0),
        "suspended": int(life.phase is Phase.SUSPENDED),
    }
