"""What an MPIJob v2beta1 has come to: its launcher is a batch Job, whose own controller retries it.

Source: kubeflow/mpi-operator v0.8, pkg/controller/mpi_job_controller.go, updateMPIJobStatus. Not taken over: an evicted
worker ends the job there and nothing is cleaned up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.parsed_job import LAUNCHER, WORKER, ParsedJob
from windlass.jobs.kubernetes.pods.pod_assembly import JOB_ROLE
from windlass.jobs.kubernetes.status import conditions as told
from windlass.jobs.kubernetes.status.conditions import Conditions, settled
from windlass.jobs.kubernetes.status.pod_states import Count, counts, member_names, phase, pod_name
from windlass.jobs.kubernetes.status.replica_outcome import (
    Judgement,
    cleaned,
    deletable,
    not_running,
    say,
    statuses_of,
    whys,
)


def judge(parsed: ParsedJob, objects: Sequence[Manifest]) -> Judgement:
    """Judge a job by its workers' pods, its launcher's pods, and the launcher's Job."""
    job = next((each for each in objects if each.get("kind") == "Job"), {})
    pods = [each for each in objects if each.get("kind") != "Job"]
    workers = [pod for pod in pods if _role(pod) != LAUNCHER.lower()]
    launchers = [pod for pod in pods if _role(pod) == LAUNCHER.lower()]
    conditions, settled_so = not_running(parsed, workers)
    if settled_so:
        return settled_so
    found = _counted(parsed, workers, launchers, job)
    conditions = _concluded(parsed, conditions, job, launchers, found)
    if told.ended(conditions):
        return cleaned(parsed, workers, conditions, found)
    return _going_on(parsed, workers, conditions, found)


def _role(pod: Manifest) -> str:
    return str((pod["metadata"].get("labels") or {}).get(JOB_ROLE) or "")


def _counted(
    parsed: ParsedJob, workers: Sequence[Manifest], launchers: Sequence[Manifest], job: Mapping[str, Any]
) -> dict[str, Count]:
    """The launcher's pods bear names of its Job's making: what runs is active, what has failed has failed."""
    found = counts(parsed, workers)
    launcher = found[LAUNCHER]
    launcher.active = [pod for pod in launchers if phase(pod) == "Running"]
    launcher.failed = [pod for pod in launchers if phase(pod) == "Failed"]
    launcher.succeeded = [dict(job)] if _condition(job, "Complete") else []
    return found


def _condition(job: Mapping[str, Any], kind: str) -> Mapping[str, Any] | None:
    listed = (job.get("status") or {}).get("conditions") or []
    return next((each for each in listed if each.get("type") == kind and each.get("status") == "True"), None)


def _concluded(
    parsed: ParsedJob,
    conditions: Conditions,
    job: Mapping[str, Any],
    launchers: Sequence[Manifest],
    found: Mapping[str, Count],
) -> Conditions:
    if _condition(job, "Complete"):
        return say(parsed, conditions, told.SUCCEEDED, "is successfully completed")
    if failed := _condition(job, "Failed"):
        reason = str(failed.get("reason") or f"{parsed.kind}Failed")
        last = [pod for pod in launchers if phase(pod) == "Failed"][-1:]
        detail = f": {whys(last)}" if last else ""
        message = str(failed.get("message") or f"{parsed.kind} {parsed.name} has failed")
        return settled(conditions, told.FAILED, reason, f"{message}{detail}")
    if evicted := [pod for pod in _failed(found) if (pod.get("status") or {}).get("reason") == "Evicted"]:
        message = f"{parsed.kind} {parsed.name} has failed because {whys(evicted)}."
        return settled(conditions, told.FAILED, f"{parsed.kind}Evicted", message)
    return conditions


def _failed(found: Mapping[str, Count]) -> list[Manifest]:
    return found[WORKER].failed if WORKER in found else []


def _going_on(
    parsed: ParsedJob, workers: Sequence[Manifest], conditions: Conditions, found: Mapping[str, Count]
) -> Judgement:
    """Workers that have failed stay: whether the launcher can do without them shows in it."""
    names = {name: replicas for name, (replicas, _) in member_names(parsed).items() if replicas.type == WORKER}
    all_run = WORKER not in found or len(found[WORKER].active) == len(names)
    if found[LAUNCHER].active and all_run:
        conditions = say(parsed, conditions, told.RUNNING, "is running")
    there = {pod_name(pod) for pod in workers}
    return Judgement(
        create=tuple(name for name in names if name not in there),
        delete=deletable([pod for pod in workers if pod_name(pod) not in names]),
        conditions=conditions,
        replica_statuses=statuses_of(parsed, found),
    )
