"""The status of a job's object in the terms of its kind, from the core's status.

Times are RFC 3339, in whole seconds. An unchanged status equals the old one, so it is not written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from windlass.core.lifecycle.failure import EVICTED
from windlass.core.model.status import TERMINAL, Failure, Phase, Target
from windlass.core.model.status import Status as Life
from windlass.jobs.kubernetes.labels import OURS
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.parsed_job import LAUNCHER, WORKER, ParsedJob, Replicas
from windlass.jobs.kubernetes.pods.pod_assembly import TRAINER_GROUP, selector_of
from windlass.jobs.kubernetes.status import conditions as job_conditions
from windlass.jobs.kubernetes.status.conditions import ADMITTED, QUEUED, Condition, Conditions
from windlass.jobs.kubernetes.status.member_conditions import MPI_V2, Counts, Failing, member_conditions, outcome_of
from windlass.jobs.kubernetes.status.status_times import rfc3339, with_times

Status = Mapping[str, Any]
_ENDS = (*job_conditions.ENDS, job_conditions.COMPLETE)
_COUNTED = ("replicaStatuses", "jobsStatus")
"""Fields with numbers of pods."""


def status_of(
    parsed: ParsedJob,
    life: Life,
    counts: Mapping[str, Counts] | None,
    before: Status,
    now: int,
    *,
    waits: str = "",
    reason: str = "",
    failing: Failing = Failing(),  # noqa: B008 - immutable
) -> Manifest:
    """The status of a job, from the core's status `life` and its pods.

    `counts`: its pods by role; None: they were counted when the job ended, and these counts stay. `waits` and `reason`:
    why it is pending, as a sentence and in one word. `failing`: pods that fail, of a job whose pods restart one by one.
    `before`: the stored status, of which other fields stay, except an end that the job has not had. `now`: ms.
    """
    known = _without_foreign_end(life, before)
    status = _status_after(parsed, life, counts, known, now, waits, reason, failing)
    return status | dict.fromkeys(before.keys() - known.keys())  # None removes a field


def _without_foreign_end(life: Life, before: Status) -> Status:
    """The stored status without an end that another writer has put there: only an ended job has one."""
    if life.phase in TERMINAL or life.target in (Target.SUCCEED, Target.FAIL):
        return before
    listed = _listed(before)
    kept = [each for each in listed if not (each["type"] in _ENDS and each.get("status") == "True")]
    if len(kept) == len(listed) and "completionTime" not in before:
        return before
    rest = {name: value for name, value in before.items() if name != "completionTime"}
    return {**rest, "conditions": kept}


def _status_after(
    parsed: ParsedJob,
    life: Life,
    counts: Mapping[str, Counts] | None,
    before: Status,
    now: int,
    waits: str,
    reason: str,
    failing: Failing,
) -> Manifest:
    are_final = counts is None or _are_counts_final(parsed, before)
    kept = {name: before[name] for name in _COUNTED if are_final and name in before}
    counts = counts or {}
    if parsed.api_version.startswith(TRAINER_GROUP):
        conditions = _merged_train_conditions(parsed, life, _listed(before), waits, reason)
        wanted: dict[str, Any] = {
            "conditions": with_times(_listed(before), conditions, rfc3339(now), updates=False),
            "jobsStatus": _jobs_status(parsed, life, counts),
            **_attempts(life),
        }
        return {**before, **wanted, **kept}
    times = {"startTime": _started(parsed, life, before), "completionTime": _ended_at(parsed, life)}
    if _shows_members(parsed, life, counts):
        conditions = list(member_conditions(parsed, life, _listed(before), counts, failing))
    else:
        conditions = _conditions(parsed, life, _listed(before), waits, reason)
    if "completionTime" in before:
        del times["completionTime"]
    wanted = {
        "conditions": with_times(_listed(before), conditions, rfc3339(now), updates=True),
        "replicaStatuses": _replica_statuses(parsed, life, counts),
        **{name: rfc3339(at) for name, at in times.items() if at is not None},
        **_attempts(life),
        **kept,
    }
    return _settled(before, wanted, now)


def _are_counts_final(parsed: ParsedJob, before: Status) -> bool:
    """Tells whether pods are counted no more: their own operators do not count those of a job that has ended."""
    return not parsed.run_policy.gang_restart and job_conditions.end_of(_listed(before)) != ""


def _fold_active(status: Mapping[str, Any]) -> dict[str, Any]:
    """Replicas that were active when the job succeeded have succeeded with it."""
    succeeded = sum(number for name in ("succeeded", "active") if isinstance(number := status.get(name), int))
    kept = {name: value for name, value in status.items() if name != "active"}
    return {**kept, **({"succeeded": succeeded} if succeeded else {})}


def _started(parsed: ParsedJob, life: Life, before: Status) -> int | None:
    """Start of the gang; where pods restart one by one, the creation of the first pods, and again after a resume."""
    if parsed.run_policy.gang_restart:
        return life.started_at
    resumed = job_conditions.is_true(_listed(before), job_conditions.SUSPENDED)
    if life.phase is Phase.QUEUED:
        return life.queued_at if resumed else None
    return life.admitted_at or life.started_at if resumed or "startTime" not in before else None


def _ended_at(parsed: ParsedJob, life: Life) -> int | None:
    """End of the job; where pods restart one by one, its decision: pods may be left to end by themselves."""
    if not parsed.run_policy.gang_restart and outcome_of(life) is not None:
        return life.ended_at or life.finished_at
    return life.finished_at


def _shows_members(parsed: ParsedJob, life: Life, counts: Mapping[str, Counts]) -> bool:
    """Tells whether the conditions are those of single pods: they restart one by one, and the first has begun."""
    if parsed.run_policy.gang_restart or life.phase not in (Phase.ADMITTED, Phase.RUNNING):
        return False
    return life.phase is Phase.RUNNING or any(map(any, counts.values()))


def _replica_statuses(parsed: ParsedJob, life: Life, counts: Mapping[str, Counts]) -> dict[str, dict[str, Any]]:
    """Returns the replica statuses by replica type. An MPIJob counts no workers once its launcher has ended."""
    if _has_launcher_ended(parsed, life, counts):
        counts = {**counts, WORKER.lower(): Counts()}
    statuses = {
        each.type: _replica_status(parsed, each.role, counts.get(each.role, Counts())) for each in parsed.replicas
    }
    ended = life.phase is Phase.SUCCEEDED or (not parsed.run_policy.gang_restart and outcome_of(life) is Target.SUCCEED)
    return {name: _fold_active(each) for name, each in statuses.items()} if ended else statuses


def _has_launcher_ended(parsed: ParsedJob, life: Life, counts: Mapping[str, Counts]) -> bool:
    """Tells whether the launcher of an MPIJob has ended; that of v2beta1 also by the failure of its Job."""
    if parsed.api_version == MPI_V2:
        return outcome_of(life) is not None and life.reason != EVICTED.reason
    launcher = counts.get(LAUNCHER.lower(), Counts())
    return parsed.kind == "MPIJob" and not parsed.run_policy.gang_restart and launcher.succeeded + launcher.failed > 0


def _listed(before: Status) -> Conditions:
    return job_conditions.conditions_of({"status": dict(before)})


def _settled(before: Status, wanted: Status, now: int) -> Manifest:
    """The old status with the wanted fields; with a new reconcile time if that changes anything."""
    result = {**before, **{name: value for name, value in wanted.items() if value is not None}}
    return result if result == before else {**result, "lastReconcileTime": rfc3339(now)}


def _replica_status(parsed: ParsedJob, role: str, count: Counts) -> dict[str, Any]:
    labels = selector_of(parsed, role)
    selector = ",".join(f"{name}={value}" for name, value in sorted(labels.items()))
    return {**{name: number for name, number in count._asdict().items() if number}, "selector": selector}


_CURRENT = {
    Phase.QUEUED: QUEUED,
    Phase.ADMITTED: ADMITTED,
    Phase.RUNNING: job_conditions.RUNNING,
    Phase.RESTARTING: job_conditions.RESTARTING,
    Phase.SUSPENDED: job_conditions.SUSPENDED,
    Phase.SUCCEEDED: job_conditions.SUCCEEDED,
    Phase.FAILED: job_conditions.FAILED,
}
_WHAT = {
    QUEUED: "waits in the queue",
    ADMITTED: "is being started",
    job_conditions.RUNNING: "is running",
    job_conditions.RESTARTING: "is restarting",
    job_conditions.SUSPENDED: "is suspended",
    job_conditions.SUCCEEDED: "is successfully completed",
    job_conditions.FAILED: "has failed",
}


def phase_conditions(parsed: ParsedJob, life: Life, waits: str, reason: str) -> list[Condition]:
    """The conditions Created and that of the phase, for any kind. `waits`, `reason`: see `status_of`."""
    return _conditions(parsed, life, (), waits, reason)


def _conditions(parsed: ParsedJob, life: Life, before: Conditions, waits: str, reason: str) -> list[Condition]:
    """The last condition is the current one, and true; earlier ones are false. Created comes first.

    A job that runs is admitted still. Of one whose pods have succeeded, the core's reason is that of its end.
    """
    if job_conditions.end_of(before):
        return list(before)
    created = _condition(parsed, job_conditions.CREATED, "", f"{parsed.kind} {parsed.name} is created.")
    current = _CURRENT.get(life.phase)
    if current is None:
        return [created]
    succeeds = life.target is Target.SUCCEED
    why = waits if current == QUEUED else "" if succeeds else life.message
    word = (reason if current == QUEUED else "") or ("" if succeeds else life.reason)
    ends = "" if why.endswith(".") else "."
    because = f" because {why}" if current == job_conditions.FAILED else f": {why}"
    message = f"{parsed.kind} {parsed.name} {_WHAT[current]}{because if why else ''}{ends}"
    now = _condition(parsed, current, word, message)
    others = [each for each in before if each["type"] not in (job_conditions.CREATED, current)]
    if (
        current == job_conditions.SUSPENDED
        and parsed.api_version == MPI_V2
        and not _has(others, job_conditions.RUNNING)
    ):
        others.append({"type": job_conditions.RUNNING, "status": "True"})  # it says of a suspended job that it is false
    lasting = ADMITTED if current == job_conditions.RUNNING else ""
    earlier = [each if each["type"] == lasting else _no_more(parsed, each, now) for each in others]
    return [created, *earlier, now]


def _has(conditions: Iterable[Condition], kind: str) -> bool:
    return any(each["type"] == kind for each in conditions)


def _condition(parsed: ParsedJob, kind: str, word: str, message: str) -> Condition:
    """The reason is the core's in our own kind, and that of the kind's operator in others: scripts wait for it."""
    own = parsed.api_version.startswith(OURS) and word
    return {"type": kind, "status": "True", "reason": word if own else f"{parsed.kind}{kind}", "message": message}


def _no_more(parsed: ParsedJob, earlier: Condition, now: Condition) -> Condition:
    if earlier.get("status") != "True":
        return earlier
    if earlier["type"] == job_conditions.SUSPENDED and not parsed.api_version.startswith(OURS):
        message = f"{parsed.kind} {parsed.name} is resumed."
        return {
            "type": job_conditions.SUSPENDED,
            "status": "False",
            "reason": f"{parsed.kind}Resumed",
            "message": message,
        }
    return {"type": earlier["type"], "status": "False", "reason": now["reason"], "message": now["message"]}


def _attempts(life: Life) -> dict[str, Any]:
    """Attempts, failures by class, and the last failure."""
    failures = {
        "user": life.user_failures,
        "infrastructure": life.infrastructure_failures,
        "preemption": life.preemptions,
    }
    recovered = {"recoveries": life.recoveries} if life.recoveries else {}
    last = {"lastFailure": _failure(life.last_failure)} if life.last_failure else {}
    history = {"attempts": life.attempts, **recovered, "failures": failures, **last}
    return history if life.attempts or life.phase in TERMINAL else {}


def _failure(failure: Failure) -> dict[str, Any]:
    known = {"member": failure.member, "exitCode": failure.exit_code, "signal": failure.signal}
    return {
        "kind": str(failure.kind),
        "reason": failure.reason,
        "message": failure.message,
        "time": rfc3339(failure.at),
        **{name: value for name, value in known.items() if value is not None},
    }


# --- TrainJob: conditions of the API's own form, of which tools wait for three, and counts of its jobs ------------
# Source: kubeflow/trainer v2.3, pkg/apis/trainer/v1alpha1; sigs.k8s.io/jobset v0.10, pkg/constants (reasons).


def _merged_train_conditions(
    parsed: ParsedJob, life: Life, before: Conditions, waits: str, reason: str
) -> list[Condition]:
    """Conditions of a TrainJob: suspended, pending, ended. An end is never changed.

    A job that no longer waits has no condition of it: a TrainerClient that finds any condition never says Running.
    """
    if job_conditions.is_true(before, job_conditions.COMPLETE) or job_conditions.is_true(before, job_conditions.FAILED):
        return list(before)
    new = {each["type"]: each for each in _train_conditions(parsed, life, before, waits, reason)}
    kept = [new.pop(each["type"], each) for each in before if each["type"] != QUEUED or QUEUED in new]
    return [*kept, *new.values()]


def _train_conditions(
    parsed: ParsedJob, life: Life, before: Conditions, waits: str, reason: str
) -> Iterator[Condition]:
    if life.phase is Phase.SUSPENDED:
        yield _train_condition(job_conditions.SUSPENDED, True, "Suspended", "TrainJob is suspended")
    elif job_conditions.is_true(before, job_conditions.SUSPENDED):
        yield _train_condition(job_conditions.SUSPENDED, False, "Resumed", "TrainJob is resumed")
    if life.phase is Phase.QUEUED:
        yield _train_condition(QUEUED, True, reason or life.reason or QUEUED, waits)
    if life.phase is Phase.SUCCEEDED:
        yield _train_condition(
            job_conditions.COMPLETE, True, "AllJobsCompleted", f"TrainJob {parsed.name} is successfully completed"
        )
    if life.phase is Phase.FAILED:
        yield _train_condition(job_conditions.FAILED, True, life.reason or "FailedJobs", life.message)


def _train_condition(kind: str, holds_now: bool, reason: str, message: str) -> Condition:  # noqa: FBT001 - private, one use
    return {"type": kind, "status": str(holds_now), "reason": reason, "message": message}


def _jobs_status(parsed: ParsedJob, life: Life, counts: Mapping[str, Counts]) -> list[dict[str, Any]]:
    """Counts of the runtime's jobs, each of which exists once, or not yet if its step has not begun."""
    return [_job(each, counts.get(each.role, Counts()), life) for each in parsed.replicas]


def _job(replicas: Replicas, count: Counts, life: Life) -> dict[str, Any]:
    has_succeeded = replicas.step < life.step or count.succeeded >= replicas.count or life.phase is Phase.SUCCEEDED
    is_present = replicas.step == life.step and not has_succeeded
    return {
        "name": replicas.type,
        "ready": int(is_present and count.active + count.succeeded >= replicas.count),
        "succeeded": int(has_succeeded),
        "failed": int(is_present and life.phase is Phase.FAILED),
        "active": int(is_present and count.active > 0),
        "suspended": int(life.phase is Phase.SUSPENDED and not has_succeeded),
    }
