"""Conditions of a job whose pods restart one by one, from the core's status and from what its pods do.

The core decides how a job ends and which pods restart; whether it runs or restarts at present shows in its pods.
Sources: kubeflow/training-operator v1.9, pkg/controller.v1/common/job.go, pkg/core/pod.go, UpdateJobStatus of each
kind; kubeflow/mpi-operator v0.8, updateMPIJobStatus. Not taken over: a condition that has ended a job never changes, a
restart shows in every kind, and a message names pods and exit codes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from windlass.core.lifecycle.failure import EVICTED
from windlass.core.model.status import CANCELLED, Phase, Target
from windlass.core.model.status import Status as Life
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.parsed_job import LAUNCHER, WORKER, ParsedJob
from windlass.jobs.kubernetes.status import conditions as c
from windlass.jobs.kubernetes.status.conditions import Condition, Conditions, with_condition

SHOWN = 3
"""Failing pods that a message names."""
_DEADLINE = "DeadlineExceeded"
MPI_V2 = "kubeflow.org/v2beta1"


class Counts(NamedTuple):
    """Number of pods of one role by phase: `active` ones run."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0
    """Also those that are being deleted while they run: on a dead node no pod reaches the phase Failed."""


class Failing(NamedTuple):
    """Pods that have failed, or are being deleted while they run."""

    total: int = 0
    pods: tuple[Manifest, ...] = ()
    """The first few of them."""

    def __str__(self) -> str:
        more = self.total - len(self.pods)
        return ", ".join(map(describe_failure, self.pods)) + (f" and {more} more pods failed" if more > 0 else "")


def outcome_of(life: Life) -> Target | None:
    """Target.SUCCEED or FAIL once the core has decided it, even while pods are left to end; None before."""
    if life.phase is Phase.SUCCEEDED or life.target is Target.SUCCEED:
        return Target.SUCCEED
    failed = life.phase is Phase.FAILED or (life.target is Target.FAIL and life.reason != CANCELLED)
    return Target.FAIL if failed else None


def member_conditions(
    parsed: ParsedJob, life: Life, before: Conditions, counts: Mapping[str, Counts], failing: Failing
) -> Conditions:
    """The conditions of a job that has pods. `counts`: pods by role."""
    conditions = _say(parsed, before, c.CREATED, "is created")
    if c.end_of(conditions):
        return conditions
    if c.is_true(conditions, c.SUSPENDED):
        message = f"{parsed.kind} {parsed.name} is resumed."
        conditions = with_condition(conditions, c.SUSPENDED, f"{parsed.kind}Resumed", message, status=False)
    outcome = outcome_of(life)
    passed = (c.QUEUED, c.ADMITTED) if outcome else (c.QUEUED,)  # a job that runs is admitted
    conditions = tuple(_passed(each) if each["type"] in passed else each for each in conditions)
    match outcome:
        case Target.SUCCEED:
            return _say(parsed, conditions, c.SUCCEEDED, "is successfully completed")
        case Target.FAIL:
            return with_condition(conditions, c.FAILED, _failed_reason(parsed, life), _failed_message(parsed, life))
    # of a gang that is suspended or cancelled, pods that are being deleted do not restart
    if failing.total and parsed.api_version != MPI_V2 and life.target is None:
        return _say(parsed, conditions, c.RESTARTING, f"is restarting because {failing}")
    if _is_running(parsed, counts):
        return _say(parsed, conditions, c.RUNNING, "is running")
    return conditions


def _say(parsed: ParsedJob, conditions: Conditions, kind: str, what: str) -> Conditions:
    """The conditions after "PyTorchJob digits <what>."."""
    return with_condition(conditions, kind, f"{parsed.kind}{kind}", f"{parsed.kind} {parsed.name} {what}.")


def _passed(condition: Condition) -> Condition:
    return {**condition, "status": "False"}


def _is_running(parsed: ParsedJob, counts: Mapping[str, Counts]) -> bool:
    if parsed.api_version == MPI_V2:  # the launcher, and every worker
        worker = parsed.replicas_of(WORKER)
        all_run = worker is None or counts.get(worker.role, Counts()).active == worker.count
        return all_run and counts.get(LAUNCHER.lower(), Counts()).active > 0
    return any(counts[role].active for role in parsed.job.success.roles if role in counts)


def _failed_reason(parsed: ParsedJob, life: Life) -> str:
    """The reason that the kind's own operator gives; mpi-operator's is that of the launcher's Job, or an eviction."""
    if parsed.api_version != MPI_V2 or life.last_failure is None or life.reason != life.last_failure.reason:
        return f"{parsed.kind}{c.FAILED}"
    if life.reason == EVICTED.reason:
        return f"{parsed.kind}Evicted"
    return life.reason if life.last_failure.member is not None else f"{parsed.kind}{c.FAILED}"


def _failed_message(parsed: ParsedJob, life: Life) -> str:
    """Returns the failure message; mpi-operator repeats that of the launcher's Job."""
    if _failed_reason(parsed, life) == life.reason:
        return life.message
    why = "it was active longer than the specified deadline" if life.reason == _DEADLINE else life.message
    because = f" because {why}" if why else ""
    return f"{parsed.kind} {parsed.name} has failed{because}."


def describe_failure(pod: Manifest) -> str:
    """The reason why a pod has failed: "digits-worker-1 exited with code 1"."""
    status = pod.get("status") or {}
    name, ends = str(pod["metadata"]["name"]), [_terminated(each) for each in _container_statuses(status)]
    codes = [int(end["exitCode"]) for end in ends if "exitCode" in end]
    code = next((code for code in codes if code), codes[0] if codes else None)
    reasons = [status.get("reason"), *(end.get("reason") for end in ends)]
    special = next((reason for reason in reasons if reason not in (None, "", "Error")), None)
    if pod["metadata"].get("deletionTimestamp") and status.get("phase") == "Running":
        return f"{name} is being deleted"
    what = "failed" if code is None else f"exited with code {code}"
    return f"{name} {what}" + (f" ({special})" if special else "")


def _container_statuses(status: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return status.get("containerStatuses") or []


def _terminated(status: Mapping[str, Any]) -> Mapping[str, Any]:
    return (status.get("state") or {}).get("terminated") or {}
