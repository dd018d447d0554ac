"""The training operator's own way with pods that fail: one by one. Which to make anew, and what the job has come to.

Source: kubeflow/training-operator v1.9, pkg/controller.v1/common/{job,pod}.go, UpdateJobStatus of each kind. Not taken
over: a condition that has ended a job never changes; whoever is made anew restarts the job, in every kind; what the
limits count includes the pods that were made anew; and a message names pods and exit codes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.parsed_job import WORKER, ParsedJob
from windlass.jobs.kubernetes.pods.pod_assembly import selector_of
from windlass.jobs.kubernetes.status import conditions as told
from windlass.jobs.kubernetes.status.clean_up import goes
from windlass.jobs.kubernetes.status.conditions import Conditions, settled
from windlass.jobs.kubernetes.status.pod_states import (
    Count,
    counts,
    leaving,
    member_names,
    phase,
    pod_name,
    restarts,
    retryable,
    why,
)

_SHOWN = 3
"""Pods that a message names."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What decides a kind's success."""

    leaders: tuple[str, ...] = ()
    """Types whose state is the job's, where it has one of them; else the workers decide."""
    container: str = ""
    """Whose exit code counts; empty: any container's."""
    first_worker: bool = False
    """Worker 0 is enough, without a leader."""
    any_worker: bool = False
    """Any worker is enough, without a leader."""
    leader_is_kept: bool = False
    """A leader that has failed is not made anew."""
    spare: tuple[str, ...] = ()
    """Types that the job goes on without."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is to be done, and what the status is to say."""

    create: tuple[str, ...] = ()
    """Members that are missing, by name."""
    delete: tuple[str, ...] = ()
    """Pods to delete; those that are still members are missing the next time."""
    clean: bool = False
    """The services of deleted pods go with them."""
    anew: int = 0
    """How many of the deleted are to be made anew: to be added to what `judge` is told as `remade` from now on."""
    conditions: Conditions = ()
    replica_statuses: Mapping[str, Mapping[str, Any]] | None = None

    @property
    def ended(self) -> str:
        """Succeeded or Failed; empty while the job has not ended."""
        return told.ended(self.conditions)


def judge(
    parsed: ParsedJob, pods: Sequence[Manifest], rules: Rules, *, remade: int = 0, active_for: int = 0
) -> Judgement:
    """Judge a job by its pods.

    `remade`: pods of it made anew before. `active_for`: milliseconds since `status.startTime`.
    """
    # 1. What has ended is only cleaned up, and what is suspended has no pods.
    conditions, settled_so = not_running(parsed, pods)
    if settled_so:
        return settled_so
    # 2. Who succeeded is done, whatever the others do.
    found = counts(parsed, pods)
    if _succeeded(parsed, found, rules):
        conditions = say(parsed, conditions, told.SUCCEEDED, "is successfully completed")
        return cleaned(parsed, pods, conditions, found)
    # 3. Limits end a job with all its pods.
    lost = [pod for count in found.values() for pod in _retryable(count, rules) if not leaving(pod)]
    if limit := _limit(parsed, found, remade, len(lost), active_for):
        conditions = say(parsed, conditions, told.FAILED, f"has failed because {limit}")
        return Judgement((), deletable(pods), True, 0, conditions, statuses_of(parsed, found))
    # 4. A failure that may not be made good ends it too.
    if fatal := [pod for count in found.values() for pod in _fatal(count, rules)]:
        conditions = say(parsed, conditions, told.FAILED, f"has failed because {whys(fatal)}")
        return cleaned(parsed, pods, conditions, found)
    # 5. Else it runs, or restarts.
    return _going_on(parsed, pods, conditions, found, lost, rules)


def not_running(parsed: ParsedJob, pods: Sequence[Manifest]) -> tuple[Conditions, Judgement | None]:
    """The job's conditions, Created first; and what is to be done of a job that has ended or is suspended."""
    conditions = say(parsed, told.conditions_of(parsed.manifest), told.CREATED, "is created")
    if told.ended(conditions):
        return conditions, cleaned(parsed, pods, conditions)
    if parsed.policy.suspend:
        return conditions, _suspended(parsed, pods, conditions)
    return _resumed(parsed, conditions), None


def say(parsed: ParsedJob, conditions: Conditions, kind: str, what: str) -> Conditions:
    """The conditions after "PyTorchJob digits <what>."."""
    return settled(conditions, kind, f"{parsed.kind}{kind}", f"{parsed.kind} {parsed.name} {what}.")


def _suspended(parsed: ParsedJob, pods: Sequence[Manifest], conditions: Conditions) -> Judgement:
    """All pods go, whatever cleanPodPolicy says."""
    reason, message = f"{parsed.kind}Suspended", f"{parsed.kind} {parsed.name} is suspended."
    if told.holds(conditions, told.RUNNING):
        conditions = settled(conditions, told.RUNNING, reason, message, status=False)
    conditions = settled(conditions, told.SUSPENDED, reason, message)
    kept = {name: _without_active(status) for name, status in _stored(parsed).items()}
    return Judgement((), deletable(pods), True, 0, conditions, kept)


def _resumed(parsed: ParsedJob, conditions: Conditions) -> Conditions:
    """The conditions of a job that is not to be suspended; `status.startTime` begins afresh where this changes them."""
    if not told.holds(conditions, told.SUSPENDED):
        return conditions
    message = f"{parsed.kind} {parsed.name} is resumed."
    return settled(conditions, told.SUSPENDED, f"{parsed.kind}Resumed", message, status=False)


def _leaders(found: Mapping[str, Count], rules: Rules) -> list[Count]:
    """Those whose state is the job's."""
    leaders = [found[name] for name in rules.leaders if name in found]
    return leaders or [count for name, count in found.items() if name == WORKER]


def _succeeded(parsed: ParsedJob, found: Mapping[str, Count], rules: Rules) -> bool:
    leaders = _leaders(found, rules)
    if leaders and all(len(count.succeeded) >= count.replicas.count for count in leaders):
        return True
    if not leaders or leaders[0].replicas.type in rules.leaders:
        return False
    done = {pod_name(pod) for pod in leaders[0].succeeded}
    return (rules.any_worker and bool(done)) or (rules.first_worker and f"{parsed.name}-worker-0" in done)


def _retryable(count: Count, rules: Rules) -> list[Manifest]:
    if rules.leader_is_kept and count.replicas.type in rules.leaders:
        return []
    return [pod for pod in count.failed if retryable(pod, count.replicas, rules.container)]


def _fatal(count: Count, rules: Rules) -> list[Manifest]:
    """Who has failed for good. Under another policy than Never, a pod that is being deleted will be made anew."""
    again = {pod_name(pod) for pod in _retryable(count, rules)}
    never = count.replicas.restart == "Never"
    if count.replicas.type in rules.spare:
        return []
    return [pod for pod in count.failed if pod_name(pod) not in again and (never or phase(pod) == "Failed")]


def _limit(parsed: ParsedJob, found: Mapping[str, Count], remade: int, lost: int, active_for: int) -> str:
    """The limit that is reached, in words; empty if none is."""
    policy = parsed.policy
    if policy.deadline is not None and active_for >= policy.deadline:
        return "it was active longer than the specified deadline"
    if policy.backoff_limit is None:
        return ""
    by_kubelets = sum(restarts(count.active) for count in found.values() if count.replicas.restart != "Never")
    reached = by_kubelets >= max(policy.backoff_limit, 1)
    exceeded = lost > 0 and by_kubelets + remade + lost > policy.backoff_limit
    return "it has reached the specified backoff limit" if reached or exceeded else ""


def _going_on(
    parsed: ParsedJob,
    pods: Sequence[Manifest],
    conditions: Conditions,
    found: Mapping[str, Count],
    lost: Sequence[Manifest],
    rules: Rules,
) -> Judgement:
    names = member_names(parsed)
    failing = [pod for name, count in found.items() if name not in rules.spare for pod in count.failed]
    if any(count.active for count in _leaders(found, rules)) and not failing:
        conditions = say(parsed, conditions, told.RUNNING, "is running")
    if failing:
        conditions = say(parsed, conditions, told.RESTARTING, f"is restarting because {whys(failing)}")
    there = {pod_name(pod) for pod in pods}
    surplus = [pod for pod in pods if pod_name(pod) not in names]
    return Judgement(
        create=tuple(name for name in names if name not in there),
        delete=deletable([*lost, *surplus]),
        anew=len(lost),
        conditions=conditions,
        replica_statuses=statuses_of(parsed, found),
    )


def cleaned(
    parsed: ParsedJob, pods: Sequence[Manifest], conditions: Conditions, found: Mapping[str, Count] | None = None
) -> Judgement:
    """The job has ended: which pods go is its cleanPodPolicy's to say; a pod that pends would run yet."""
    statuses = statuses_of(parsed, found) if found is not None else _stored(parsed)
    if told.ended(conditions) == told.SUCCEEDED:
        statuses = {name: folded(status) for name, status in statuses.items()}
    return Judgement((), deletable([pod for pod in pods if goes(parsed, phase(pod))]), True, 0, conditions, statuses)


def deletable(pods: Sequence[Manifest]) -> tuple[str, ...]:
    """The names of those that nobody has deleted yet."""
    return tuple(pod_name(pod) for pod in pods if not leaving(pod))


def whys(pods: Sequence[Manifest]) -> str:
    """Why each of them has failed, for a few by name."""
    named = ", ".join(why(pod) for pod in pods[:_SHOWN])
    return named + (f" and {len(pods) - _SHOWN} more pods failed" if len(pods) > _SHOWN else "")


def statuses_of(parsed: ParsedJob, found: Mapping[str, Count]) -> dict[str, dict[str, Any]]:
    """What the API calls replicaStatuses; nothing is said of none. The selector is the scale subresource's."""
    return {name: _status(parsed, count) for name, count in found.items()}


def _status(parsed: ParsedJob, count: Count) -> dict[str, Any]:
    numbers = {"active": len(count.active), "succeeded": len(count.succeeded), "failed": len(count.failed)}
    labels = selector_of(parsed, count.replicas.role)
    selector = ",".join(f"{name}={value}" for name, value in sorted(labels.items()))
    return {**{name: number for name, number in numbers.items() if number}, "selector": selector}


def _stored(parsed: ParsedJob) -> dict[str, dict[str, Any]]:
    status = parsed.manifest.get("status")
    found = status.get("replicaStatuses") if isinstance(status, dict) else None
    kept = found if isinstance(found, dict) else {}
    return {name: value for name, value in kept.items() if isinstance(value, dict)}


def _without_active(status: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in status.items() if name != "active"}


def folded(status: Mapping[str, Any]) -> dict[str, Any]:
    """Of replicas: who was still active when the job succeeded has succeeded with it."""
    succeeded = sum(number for name in ("succeeded", "active") if isinstance(number := status.get(name), int))
    return {**_without_active(status), **({"succeeded": succeeded} if succeeded else {})}
