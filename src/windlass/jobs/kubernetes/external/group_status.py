"""Status of a PodGroup in the terms of its dialect.

Sources: sigs.k8s.io/scheduler-plugins v0.33, pkg/controllers/podgroup_controller.go; volcano.sh/apis v1.13,
scheduling/v1beta1/types.go; k8s.io/kubernetes v1.36, pkg/scheduler/schedule_one_podgroup.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from windlass.jobs.kubernetes.external.observed_pod import Pod
from windlass.jobs.kubernetes.gang_dialects import Dialect
from windlass.jobs.kubernetes.labels import PENDING
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.status.conditions import Conditions, conditions_of
from windlass.jobs.kubernetes.status.status_times import merge_conditions

Status = Mapping[str, Any]
_NOT_ENOUGH_PODS, _NOT_ENOUGH_ROOM = "NotEnoughTasks", "NotEnoughResources"


@dataclass(frozen=True, slots=True)
class PodCounts:
    """Number of pods of a group by phase."""

    pods: int = 0
    """Pods that are not being deleted."""
    placed: int = 0
    """On a node and not ended."""
    running: int = 0
    succeeded: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class GroupPatch:
    """Merge patches of one PodGroup; empty parts are not to be sent. None removes a field."""

    status: Status = field(default_factory=dict)
    annotations: Mapping[str, str | None] = field(default_factory=dict)
    """Annotations, for dialects whose status has no field for a reason."""


def counts_of(pods: Sequence[Pod]) -> PodCounts:
    """The pods by phase."""
    phases = [pod.status.phase for pod in pods]
    there = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
    return PodCounts(
        pods=len(there),
        placed=sum(bool(pod.spec.node_name) and pod.status.phase not in ("Succeeded", "Failed") for pod in there),
        running=phases.count("Running"),
        succeeded=phases.count("Succeeded"),
        failed=phases.count("Failed"),
    )


def group_patch(dialect: Dialect, group: Manifest, counts: PodCounts, minimum: int, waits: str, now: str) -> GroupPatch:
    """The patch that brings the status of the PodGroup `group` up to date.

    `minimum`: pods that start together. `waits`: why it is pending, as a sentence; empty if it has started or is not
    held back. `now`: RFC 3339.
    """
    written = group.get("status")
    before: Status = written if isinstance(written, dict) else {}
    match dialect:
        case Dialect.NATIVE:
            wanted = _native(before, counts, minimum, waits, now)
        case Dialect.VOLCANO:
            wanted = _volcano(before, counts, minimum, waits, now)
        case Dialect.COSCHEDULING | Dialect.OLD_COSCHEDULING:
            status = _coscheduling(before, counts, minimum, now)
            return GroupPatch(_changes(before, status), _annotation(group, waits))
        case _:
            return GroupPatch()
    return GroupPatch(_changes(before, wanted))


def _coscheduling(before: Status, counts: PodCounts, minimum: int, now: str) -> dict[str, Any]:
    """The status as the dialect's own controller writes it, so both may run. An end is kept."""
    if before.get("phase") in ("Finished", "Failed"):
        return {}
    phase, alive = "Pending", counts.running + counts.succeeded
    if counts.succeeded >= minimum:
        phase = "Finished"
    elif counts.failed and counts.failed + alive >= minimum:
        phase = "Failed"
    elif counts.pods >= minimum:
        phase = "Running" if alive >= minimum else "Scheduling"
    status = {"phase": phase, "running": counts.running, "succeeded": counts.succeeded, "failed": counts.failed}
    began = {} if phase == "Pending" or before.get("scheduleStartTime") else {"scheduleStartTime": now}
    return {**status, **began}


def _annotation(group: Manifest, waits: str) -> dict[str, str | None]:
    written = ((group.get("metadata") or {}).get("annotations") or {}).get(PENDING)
    wanted = waits or None
    return {} if written == wanted else {PENDING: wanted}


def _volcano(before: Status, counts: PodCounts, minimum: int, waits: str, now: str) -> dict[str, Any]:
    """Inqueue, the phase until a gang runs, lets Volcano's controller create its pods."""
    phase, alive = "Inqueue", counts.running + counts.succeeded
    if counts.succeeded and counts.succeeded >= max(counts.pods, minimum):
        phase = "Completed"
    elif alive >= minimum:
        phase = "Running"
    elif counts.running and counts.pods >= minimum:
        phase = "Unknown"
    reason = _NOT_ENOUGH_ROOM if counts.pods >= minimum else _NOT_ENOUGH_PODS
    placed = counts.placed + counts.succeeded >= minimum
    condition = {
        "type": "Scheduled" if placed else "Unschedulable",
        "status": "True",
        "reason": "tasks in the gang are ready to be scheduled" if placed else reason,
        "message": "" if placed else waits,
        "transitionID": now,
    }
    changed = [condition] if placed or waits else []
    conditions = merge_conditions(_conditions(before), changed, now)
    numbers = {"running": counts.running, "succeeded": counts.succeeded, "failed": counts.failed}
    return {"phase": phase, "conditions": conditions, **numbers}


def _native(before: Status, counts: PodCounts, minimum: int, waits: str, now: str) -> dict[str, Any]:
    placed = counts.placed + counts.succeeded >= minimum
    if not placed and not waits:
        return {}
    condition = {
        "type": "PodGroupScheduled",
        "status": "True" if placed else "False",
        "reason": "Scheduled" if placed else "Unschedulable",
        "message": "" if placed else waits,
    }
    return {"conditions": merge_conditions(_conditions(before), [condition], now)}


def _conditions(status: Status) -> Conditions:
    return conditions_of({"status": dict(status)})


def _changes(before: Status, wanted: Status) -> dict[str, Any]:
    return {name: value for name, value in wanted.items() if before.get(name, 0 if value == 0 else None) != value}
