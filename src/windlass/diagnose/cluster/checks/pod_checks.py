"""Checks of pods that do not start, do not end or were refused, by the reason for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from windlass.diagnose.cluster.survey import ClusterSurvey, age_s, find_condition, items, name_of, number, read, text
from windlass.diagnose.steps import CheckStep, State, absent, ok, unseen
from windlass.jobs.kubernetes.manifest_reader import Manifest

_UNSEEN_S, _CREATING_S, _TERMINATING_S, _RECENT_S = 60, 600, 300, 86_400
"""Seconds after which a pod without a verdict, in creation or in deletion is stuck; older failures are not shown."""
_IMAGE = ("ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError")
_CONFIG = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
_REFUSED = ("UnexpectedAdmissionError", "NodeAffinity", "Evicted", "Preempting", "TopologyAffinityError")
_SHOWN = 10

_FIXES = {
    "image": "check name, tag and architecture of the image, and its pull secret: kubectl describe pod NAME",
    "config": "a ConfigMap, Secret or command of the container is missing or wrong: kubectl describe pod NAME",
    "crash": "read its end: kubectl logs NAME --previous",
    "creating": "volumes, CNI or devices do not get ready: kubectl describe pod NAME",
    "terminating": "its node is unreachable, or a finalizer stays: see metadata.finalizers",
    "unscheduled": "no scheduler answers for its schedulerName: kubectl get pod NAME -o jsonpath={.spec.schedulerName}",
    "refused": "recreate the pod; if it repeats on one node: windlass doctor host there, a device may be unhealthy",
    "gated": "its queueing system has not admitted it: windlass why, or kubectl describe workload",
}
_TEXTS = {
    "image": "cannot get an image",
    "config": "cannot create a container",
    "crash": "crashed again and again",
    "creating": "in creation for more than 10 minutes",
    "terminating": "should have ended",
    "unscheduled": "without a verdict of any scheduler",
    "refused": "refused or evicted by a node in the last day",
    "gated": "behind a scheduling gate",
}
_WARNINGS = frozenset({"gated"})


def check_pods(survey: ClusterSurvey) -> Iterator[CheckStep]:
    """Yields a step for each reason that pods are stuck for, or one that none is."""
    if "pods" in survey.refused:
        yield unseen("pods.stuck", "pods may not be listed", "ask for get and list of pods")
        return
    stuck: dict[str, list[str]] = {}
    for pod in survey.of("pods"):
        for reason, classify in _CLASSES.items():
            if detail := classify(pod, survey.now):
                stuck.setdefault(reason, []).append(f"{name_of(pod)}: {detail}")
                break
    for reason, lines in stuck.items():
        state = State.WARNING if reason in _WARNINGS else State.WRONG
        count = f"{len(lines)} pod{'s' if len(lines) > 1 else ''} {_TEXTS[reason]}"
        yield CheckStep(f"pods.{reason}", state, count, _FIXES[reason], tuple(lines[:_SHOWN]))
    if not stuck:
        where = f" in {survey.namespace}" if survey.namespace else ""
        yield ok("pods.stuck", f"none of {len(survey.of('pods'))} pods{where}")


def check_claims(survey: ClusterSurvey) -> Iterator[CheckStep]:
    """Yields the step of volume claims that pods wait for; a claim that no pod uses may stay unbound."""
    name, kind = "pods.claims", "persistentvolumeclaims"
    if kind in survey.refused:
        yield unseen(name, "claims may not be listed", "ask for get and list of persistentvolumeclaims")
        return
    users = {claim: name_of(pod) for pod in survey.of("pods") for claim in _claims_of(pod)}
    phases = {name_of(claim): text(claim, "status", "phase") for claim in survey.of(kind)}
    lines = [f"{pod}: {claim} does not exist" for claim, pod in users.items() if claim not in phases]
    lines += [f"{pod}: {claim} is {phases[claim]}" for claim, pod in users.items() if phases.get(claim) == "Lost"]
    lines += [f"{pod}: {claim} is not bound" for claim, pod in users.items() if phases.get(claim) == "Pending"]
    if lines:
        fix = "kubectl describe pvc NAME: storage class, provisioner, access mode or zone"
        yield CheckStep(name, State.WARNING, f"pods wait for {len(lines)} claims", fix, tuple(lines[:_SHOWN]))
    elif users:
        yield ok(name, f"{len(users)} claims of pods are bound")
    else:
        yield absent(name, "no pod that waits or runs uses a claim")


def _claims_of(pod: Manifest) -> Iterator[str]:
    """Yields the claims of a pod that has not ended."""
    if text(pod, "status", "phase") not in ("Succeeded", "Failed"):
        for volume in items(pod, "spec", "volumes"):
            if claim := text(volume, "persistentVolumeClaim", "claimName"):
                yield f"{text(pod, 'metadata', 'namespace')}/{claim}"


def _waiting(pod: Manifest) -> Iterator[tuple[str, str]]:
    """Yields reason and message of every container that waits."""
    for field in ("initContainerStatuses", "containerStatuses"):
        for each in items(pod, "status", field):
            if reason := text(each, "state", "waiting", "reason"):
                yield reason, text(each, "state", "waiting", "message")


def _waits_for(reasons: tuple[str, ...]) -> Callable[[Manifest, int], str]:
    def classify(pod: Manifest, _now: int) -> str:
        found = ((reason, message) for reason, message in _waiting(pod) if reason in reasons)
        return next((f"{reason}: {message}".rstrip(": ")[:300] for reason, message in found), "")

    return classify


def _creating(pod: Manifest, now: int) -> str:
    since = find_condition(pod, "PodScheduled")
    if text(pod, "status", "phase") != "Pending" or since.get("status") != "True":
        return ""
    age = age_s(since.get("lastTransitionTime"), now)
    reasons = ", ".join(sorted({reason for reason, _ in _waiting(pod)})) or "no container status"
    return f"{reasons} for {age / 60:.0f} minutes on {text(pod, 'spec', 'nodeName')}" if age > _CREATING_S else ""


def _terminating(pod: Manifest, now: int) -> str:
    """The time of deletion already contains the grace period."""
    age = age_s(text(pod, "metadata", "deletionTimestamp"), now)
    if age <= _TERMINATING_S:
        return ""
    finalizers = [str(each) for each in items(pod, "metadata", "finalizers")]
    return f"should have ended {age / 60:.0f} minutes ago" + (
        f", finalizers {', '.join(finalizers)}" if finalizers else ""
    )


def _unscheduled(pod: Manifest, now: int) -> str:
    is_waiting = text(pod, "status", "phase") == "Pending" and not text(pod, "spec", "nodeName")
    if not is_waiting or find_condition(pod, "PodScheduled") or items(pod, "spec", "schedulingGates"):
        return ""
    age = age_s(text(pod, "metadata", "creationTimestamp"), now)
    return f"schedulerName {text(pod, 'spec', 'schedulerName')}" if age > _UNSEEN_S else ""


def _refused(pod: Manifest, now: int) -> str:
    reason, since = text(pod, "status", "reason"), text(pod, "status", "startTime")
    is_meant = reason in _REFUSED or reason.startswith("OutOf")
    if text(pod, "status", "phase") != "Failed" or not is_meant or age_s(since, now) > _RECENT_S:
        return ""
    return f"{reason}: {text(pod, 'status', 'message')}"[:300]


def _gated(pod: Manifest, now: int) -> str:
    gates = [text(gate, "name") for gate in items(pod, "spec", "schedulingGates")]
    age = age_s(text(pod, "metadata", "creationTimestamp"), now)
    return f"{', '.join(gates)} for {age / 60:.0f} minutes" if gates and age > _UNSEEN_S else ""


def _crashing(pod: Manifest, _now: int) -> str:
    for each in items(pod, "status", "containerStatuses"):
        if text(each, "state", "waiting", "reason") == "CrashLoopBackOff":
            code = read(each, "lastState", "terminated", "exitCode")
            return f"container {text(each, 'name')}, {number(each, 'restartCount')} restarts, last exit code {code}"
    return ""


_CLASSES: dict[str, Callable[[Manifest, int], str]] = {
    "terminating": _terminating,
    "image": _waits_for(_IMAGE),
    "config": _waits_for(_CONFIG),
    "crash": _crashing,
    "refused": _refused,
    "gated": _gated,
    "unscheduled": _unscheduled,
    "creating": _creating,
}
"""Reason → function that returns the detail of a pod that is stuck for it, "" for others; the first one counts."""
