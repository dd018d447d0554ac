"""Check of A2: the samples that each pod of the Indexed Job recorded, and the states of the other Jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from windlass.labs.evidence.findings import Finding
from windlass.labs.evidence.lab import Lab

SAMPLES = range(1, 13)


def check(lab: Lab) -> Iterator[Finding]:
    """Looks at the Jobs in the order of the steps."""
    # 1. shards
    job = lab.kube("batch/v1/jobs/shards")
    pods = _succeeded_pods(lab, "shards")
    yield _prepared(job, pods)
    yield Finding(
        _has_condition(job, "Complete"),
        "the Job shards is complete",
        "kubectl get pods -l job-name=shards shows what its pods do; wait for them, or read their logs",
    )
    yield Finding(
        bool(job) and job["spec"].get("completionMode") == "Indexed",
        "each pod of shards has an index",
        "without JOB_COMPLETION_INDEX every pod trained shard 0: add completionMode: Indexed beside completions",
    )
    yield _divided(pods)
    # 2. hopeless
    yield from _ended_early(lab)
    # 3. nightly
    yield from _scheduled(lab)


def _prepared(job: Any, pods: Sequence[Any]) -> Finding:
    """Whether an init container prepares the data, and has ended with success in every pod."""
    what = "an init container has prepared the data of every pod"
    if not job:
        return Finding(met=False, what=what, fix="there is no Job shards: kubectl apply -f shards.yaml")
    if not job["spec"]["template"]["spec"].get("initContainers"):
        fix = (
            "containers of a pod start together, so that train may look for the data before prepare has written it: "
            "move prepare into initContainers, delete the Job, and apply it again"
        )
        return Finding(met=False, what=what, fix=fix)
    ended = [_ends(pod, "initContainerStatuses") for pod in pods]
    is_done = bool(ended) and all(ends and all(end.get("exitCode") == 0 for end in ends) for ends in ended)
    return Finding(is_done, what, "no pod of shards has succeeded yet: kubectl describe pods -l job-name=shards")


def _divided(pods: Sequence[Any]) -> Finding:
    """Whether the pods recorded each sample once. Replaced pods do not count, because they did not succeed."""
    counts = Counter(sample for pod in pods for sample in _samples(pod))
    missing = [sample for sample in SAMPLES if not counts[sample]]
    twice = [sample for sample, count in counts.items() if count > 1]
    strange = counts.keys() - set(SAMPLES)
    fix = f"samples that no pod trained: {_shown(missing)}; more than once: {_shown(twice)}; unknown: {_shown(strange)}"
    is_exact = not (missing or twice or strange) and len(pods) > 1
    return Finding(
        is_exact,
        f"the {len(pods)} pods have trained each sample once",
        f"{fix}. The number of shards in the program has to equal completions, of which there are at least two",
    )


def _ended_early(lab: Lab) -> Iterator[Finding]:
    """Yields whether the Job that cannot succeed has failed, after two pods at most."""
    job = lab.kube("batch/v1/jobs/hopeless")
    status = (job or {}).get("status", {})
    pods = status.get("failed", 0) + status.get("succeeded", 0)
    yield Finding(_has_condition(job, "Failed"), "the Job hopeless has failed for good", _suggest_failure(job, pods))
    yield Finding(
        pods in (1, 2),
        "hopeless has run two pods at most",
        f"it has run {pods} pods with the same error: lower backoffLimit to 1 or 0, delete the Job and apply it again",
    )
    yield Finding(
        any(end.get("exitCode") == 3 for pod in _pods(lab, "hopeless") for end in _ends(pod, "containerStatuses")),
        "the program of hopeless is as it was",
        "its pods did not end with the exit code 3 of the program: leave the program as it is, and change the Job",
    )


def _suggest_failure(job: Any, pods: int) -> str:
    """Returns what makes the Job hopeless fail for good."""
    if not job:
        return "kubectl apply -f hopeless.yaml"
    if _has_condition(job, "Complete"):
        return "it is Complete, so its program is another one: leave the program as it is, and change the Job"
    return (
        f"it has failed {pods} times and tries again, after a longer pause each time: lower backoffLimit, delete the "
        "Job and apply it again"
    )


def _scheduled(lab: Lab) -> Iterator[Finding]:
    """Yields whether the CronJob lets no two of its jobs run at once, and one of its jobs is complete."""
    cron = lab.kube("batch/v1/cronjobs/nightly")
    policy = cron["spec"].get("concurrencyPolicy") if cron else None
    yield Finding(
        policy in ("Forbid", "Replace"),
        "the jobs of nightly do not run beside each other",
        f"concurrencyPolicy is {policy}: a job that lasts longer than a day gets company; choose Forbid or Replace"
        if cron
        else "kubectl apply -f nightly.yaml",
    )
    own = [job for job in lab.kube("batch/v1/jobs")["items"] if cron and _owner(job) == cron["metadata"]["uid"]]
    yield Finding(
        any(_has_condition(job, "Complete") for job in own),
        "a job of nightly is complete",
        "do not wait for the night: kubectl create job --from=cronjob/nightly tonight, then wait for its end",
    )


def _pods(lab: Lab, job: str) -> list[Any]:
    return list(lab.kube(f"pods?labelSelector=batch.kubernetes.io/job-name={job}")["items"])


def _succeeded_pods(lab: Lab, job: str) -> list[Any]:
    return [pod for pod in _pods(lab, job) if pod.get("status", {}).get("phase") == "Succeeded"]


def _ends(pod: Any, kind: str) -> list[Any]:
    """Returns how each container of a kind ended; {} for one that has not."""
    return [each.get("state", {}).get("terminated", {}) for each in pod.get("status", {}).get(kind, ())]


def _samples(pod: Any) -> list[int]:
    """Returns the samples that the program left in /dev/termination-log."""
    words = " ".join(str(end.get("message", "")) for end in _ends(pod, "containerStatuses")).split()
    return [int(word) for word in words if word.isdecimal()]


def _has_condition(job: Any, kind: str) -> bool:
    conditions = (job or {}).get("status", {}).get("conditions", ())
    return any((each["type"], each["status"]) == (kind, "True") for each in conditions)


def _owner(job: Any) -> str:
    """Returns the uid of the object that owns a Job."""
    return str(next((each["uid"] for each in job["metadata"].get("ownerReferences", ())), ""))


def _shown(samples: Any) -> str:
    return " ".join(map(str, sorted(samples)[:12])) or "none"
