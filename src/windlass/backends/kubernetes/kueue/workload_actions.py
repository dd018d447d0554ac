"""The next write to the Workload of a job, and the status that it gets.

Source: sigs.k8s.io/kueue v0.19, pkg/controller/jobframework/reconciler.go, which does the same for the kinds that Kueue
knows: it creates the Workload, gives the quota of an evicted job back, and reports readiness and the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from windlass.backends.kubernetes.kueue.workload_state import AdmissionPhase, KueueAdmission
from windlass.jobs.kubernetes.manifest_reader import Manifest

_REQUEUED_AFTER = ("Preempted", "NodeFailures")
"""Reasons of an eviction after which Kueue queues the Workload again at once; it counts down for others."""


class WorkloadAction(StrEnum):
    """One write to a Workload."""

    NONE = "none"
    CREATE = "create"
    DELETE = "delete"
    """The owner suspended the job, or changed the pods of a job that waits; or Windlass refuses the job, or its begin
    time was put off."""
    RELEASE = "release"
    """The job has stopped after an eviction: its quota is free."""
    READY = "ready"
    FINISH = "finish"


class JobFacts(NamedTuple):
    """The facts of a job that decide what its Workload says."""

    has_ended: bool = False
    has_succeeded: bool = False
    is_suspended: bool = False
    """By its owner."""
    is_refused: bool = False
    """Windlass cannot schedule it until something else changes, and has no state of it."""
    is_early: bool = False
    """Its begin time is to come."""
    holds_nodes: bool = False
    is_running: bool = False


def next_action(
    job: JobFacts, workload: Manifest | None, admission: KueueAdmission, *, is_outdated: bool
) -> WorkloadAction:
    """The next write. `is_outdated`: the Workload has other pods than the job."""
    has_no_place = job.is_suspended or job.is_refused or job.is_early
    if workload is None:
        return WorkloadAction.NONE if job.has_ended or has_no_place else WorkloadAction.CREATE
    conditions = conditions_by_type(workload)
    if job.has_ended:
        return WorkloadAction.NONE if _is_true(conditions, "Finished") else WorkloadAction.FINISH
    if job.holds_nodes:
        ready = job.is_running and admission.phase is AdmissionPhase.ADMITTED and not _is_true(conditions, "PodsReady")
        return WorkloadAction.READY if ready else WorkloadAction.NONE
    if has_no_place or (is_outdated and admission.phase is AdmissionPhase.WAITING):
        return WorkloadAction.DELETE
    return WorkloadAction.RELEASE if admission.phase is AdmissionPhase.EVICTED else WorkloadAction.NONE


def status_after(action: WorkloadAction, workload: Manifest, job: JobFacts, at: str) -> Manifest:
    """The status to merge into a Workload. `at`: the present time as Kubernetes writes it."""
    match action:
        case WorkloadAction.READY:
            return _with_conditions(workload, at, [("PodsReady", "True", "PodsReady", "All pods of the gang run")])
        case WorkloadAction.FINISH:
            reason = "Succeeded" if job.has_succeeded else "Failed"
            return _with_conditions(workload, at, [("Finished", "True", reason, f"The job has {reason.lower()}")])
    evicted = conditions_by_type(workload).get("Evicted") or {}
    reason, message = str(evicted.get("reason") or "Evicted"), str(evicted.get("message") or "")
    requeued = "True" if reason in _REQUEUED_AFTER else "False"
    changes = [
        ("Requeued", requeued, reason, message),
        ("QuotaReserved", "False", "Pending", message),
        ("Admitted", "False", "NoReservation", "The workload has no reservation"),
    ]
    return {**_with_conditions(workload, at, changes), "admission": None}


def reserves_quota(workload: Manifest) -> bool:
    """Whether Kueue has reserved quota for a Workload."""
    return _is_true(conditions_by_type(workload), "QuotaReserved")


def conditions_by_type(workload: Manifest) -> dict[str, Mapping[str, Any]]:
    """The conditions of a Workload by type; those without one are left out."""
    status = workload.get("status")
    found = status.get("conditions") if isinstance(status, dict) else None
    conditions = found if isinstance(found, list) else []
    return {str(each["type"]): each for each in conditions if isinstance(each, dict) and "type" in each}


def _is_true(conditions: Mapping[str, Mapping[str, Any]], name: str) -> bool:
    return name in conditions and conditions[name].get("status") == "True"


def _with_conditions(workload: Manifest, at: str, changes: Sequence[tuple[str, str, str, str]]) -> Manifest:
    """All conditions of a Workload after some have changed: a merge patch replaces the list."""
    found = dict(conditions_by_type(workload))
    for name, status, reason, message in changes:
        same = found.get(name, {}).get("status") == status
        found[name] = {
            "type": name,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": found[name].get("lastTransitionTime", at) if same else at,
            "observedGeneration": workload["metadata"].get("generation", 0),
        }
    return {"conditions": list(found.values())}
