"""Check of A1: three pods that have succeeded, and the events of the time before."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from windlass.labs.evidence.findings import Finding
from windlass.labs.evidence.lab import Lab


def check(lab: Lab) -> Iterator[Finding]:
    """Looks at each pod in the order of the steps."""
    # 1. first, and its log
    yield _succeeded(lab, "first", "kubectl apply -f first.yaml")
    yield _log_is_its_own(lab)
    # 2. big: the scheduler found no node, then one
    yield Finding(
        _has_event(lab, "big", "FailedScheduling"),
        "the scheduler has found no node for the pod big",
        "apply big.yaml as it is at the start, and read the events: kubectl describe pod big",
    )
    yield _succeeded(lab, "big", "delete the pod, request less CPU in big.yaml, and apply it again")
    # 3. broken: the kubelet has paused between restarts, then it succeeded
    yield Finding(
        _has_event(lab, "broken", "BackOff"),
        "the kubelet has paused before it restarted the pod broken",
        "apply broken.yaml as it is at the start, and wait until kubectl describe pod broken shows BackOff",
    )
    yield _succeeded(lab, "broken", "delete the pod, set the variable DATA in broken.yaml, and apply it again")
    yield Finding(
        any(re.fullmatch(r"data in \S.*", line) for line in lab.pod_log("broken")),
        "the program of the pod broken has read its data's place from DATA",
        "its log has no line such as `data in /data`: leave its program as it is, and give the container the "
        "variable DATA with a value",
    )


def _succeeded(lab: Lab, name: str, fix: str) -> Finding:
    """Whether a pod has succeeded; its present phase is named where it has not."""
    pod = lab.kube(f"pods/{name}")
    phase = pod["status"].get("phase", "Pending") if pod else ""
    if phase == "Running" and _restarts(pod) == 0:
        fix = f"it runs: wait, and look at it with kubectl get pod {name}"
    state = f"the pod {name} is {phase}" if pod else f"there is no pod {name}"
    return Finding(phase == "Succeeded", f"the pod {name} has succeeded", f"{state}: {fix}")


def _log_is_its_own(lab: Lab) -> Finding:
    """Whether first.log has the random ticket that the container left at its end."""
    ticket = _message(lab.kube("pods/first"))
    log = lab.file("first.log")
    fix = "kubectl logs first > first.log"
    if log is not None and ticket not in log:
        fix = f"first.log is not the log of the pod that is there now; save it again: {fix}"
    return Finding(bool(ticket) and ticket in (log or ""), "first.log is the log of the pod first", fix)


def _has_event(lab: Lab, name: str, reason: str) -> bool:
    """Whether a pod of this name has an event with this reason, also if the pod was deleted since."""
    events = lab.kube("events")["items"]
    return any((each["involvedObject"].get("name"), each.get("reason")) == (name, reason) for each in events)


def _message(pod: Any) -> str:
    """Returns what the first container left in /dev/termination-log."""
    for each in _containers(pod):
        return str(each.get("state", {}).get("terminated", {}).get("message", "")).strip()
    return ""


def _restarts(pod: Any) -> int:
    return sum(each.get("restartCount", 0) for each in _containers(pod))


def _containers(pod: Any) -> Any:
    return (pod or {}).get("status", {}).get("containerStatuses", ())
