"""Statuses that a kubelet writes for pods and nodes: pure functions from objects to patches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Pod = dict[str, Any]
Patch = dict[str, Any]

UNREACHABLE = "node.kubernetes.io/unreachable"
KILLED = 128 + 9
TERMINATED = 128 + 15


def running(pod: Pod, now: str, host: str, ip: str, restarts: int = 0, last: Mapping[str, Any] | None = None) -> Patch:
    """Returns the status of a pod whose containers run and are ready; `last`: their previous end, if any."""
    containers = [
        _container(each, {"running": {"startedAt": now}}, ready=True, restarts=restarts, last=last)
        for each in pod["spec"]["containers"]
    ]
    inits = [_init(each, now) for each in pod["spec"].get("initContainers", ())]
    places = {"hostIP": host, "hostIPs": [{"ip": host}], "podIP": ip, "podIPs": [{"ip": ip}]}
    conditions = [_condition(kind, "True", now) for kind in ("Initialized", "Ready", "ContainersReady")]
    return _patch(
        pod,
        phase="Running",
        startTime=pod.get("status", {}).get("startTime", now),
        conditions=conditions,
        containerStatuses=containers,
        **({"initContainerStatuses": inits} if inits else {}),
        **places,
    )


def waiting(pod: Pod, now: str, host: str, reason: str, message: str) -> Patch:
    """Returns the status of a pod none of whose containers can be started, with the reason."""
    state = {"waiting": {"reason": reason, "message": message}}
    containers = [_container(each, state) for each in pod["spec"]["containers"]]
    conditions = [_condition("Ready", "False", now, "ContainersNotReady")]
    return _patch(pod, phase="Pending", hostIP=host, startTime=now, conditions=conditions, containerStatuses=containers)


def ended(pod: Pod, now: str, codes: Mapping[str, int], reason: str = "", restarts: int = 0) -> Patch:
    """Returns the status of a pod whose containers have ended; `codes` by container name."""
    containers = [
        _container(each, terminated(codes[each["name"]], reason, now), restarts=restarts)
        for each in pod["spec"]["containers"]
    ]
    conditions = [_condition(kind, "False", now, "PodCompleted") for kind in ("Ready", "ContainersReady")]
    phase = "Failed" if any(codes.values()) else "Succeeded"
    return _patch(pod, phase=phase, conditions=conditions, containerStatuses=containers)


def evicted(pod: Pod, now: str, message: str) -> Patch:
    """Returns the status of a pod evicted for lack of a resource."""
    lost = _condition("DisruptionTarget", "True", now, "TerminationByKubelet")
    patch = ended(pod, now, {each["name"]: KILLED for each in pod["spec"]["containers"]}, "Error")
    patch["status"] |= {"phase": "Failed", "reason": "Evicted", "message": message}
    patch["status"]["conditions"].append(lost)
    return patch


def refused(pod: Pod, now: str, reason: str, message: str) -> Patch:
    """Returns the status of a pod that a kubelet has rejected; no container was started."""
    return _patch(pod, phase="Failed", reason=reason, message=message, startTime=now)


def devices(resources: Mapping[str, str]) -> dict[str, int]:
    """Returns the resources that are counted devices: their names have a domain."""
    return {name: int(count) for name, count in resources.items() if "/" in name}


def wanted_devices(pod: Pod) -> dict[str, int]:
    """Returns the devices of all containers by their limits, which equal the requests."""
    wanted: dict[str, int] = {}
    for container in pod["spec"]["containers"]:
        for name, count in devices(container.get("resources", {}).get("limits", {})).items():
            wanted[name] = wanted.get(name, 0) + count
    return wanted


def terminated(code: int, reason: str, now: str) -> dict[str, Any]:
    """The state of a container that has ended."""
    described = reason or ("Error" if code else "Completed")
    return {"terminated": {"exitCode": code, "reason": described, "startedAt": now, "finishedAt": now}}


def node(
    name: str,
    now: str,
    address: str,
    allocatable: Mapping[str, str],
    labels: Mapping[str, str],
    taints: Sequence[Mapping[str, str]] = (),
) -> dict[str, Any]:
    """Returns a Node object that is ready."""
    labelled = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", **labels}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labelled},
        "spec": {"taints": list(taints)} if taints else {},
        "status": {
            "capacity": dict(allocatable),
            "allocatable": dict(allocatable),
            "conditions": [readiness("True", now)],
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
            "nodeInfo": _SYSTEM,
        },
    }


def readiness(status: str, now: str) -> dict[str, str]:
    """The condition Ready of a node."""
    reasons = {"True": "KubeletReady", "False": "KubeletNotReady", "Unknown": "NodeStatusUnknown"}
    return {**_condition("Ready", status, now, reasons[status]), "lastHeartbeatTime": now}


_SYSTEM = {
    "machineID": "",
    "systemUUID": "",
    "bootID": "",
    "kernelVersion": "6.1.0",
    "osImage": "fake",
    "containerRuntimeVersion": "fake://1",
    "kubeletVersion": "v1.36.3",
    "kubeProxyVersion": "",
    "operatingSystem": "linux",
    "architecture": "amd64",
}


def _patch(pod: Pod, **status: Any) -> Patch:
    """Returns a patch of exactly this pod: its uid makes a patch of another pod of the name a conflict."""
    return {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}


def _container(
    spec: Mapping[str, Any],
    state: Mapping[str, Any],
    *,
    ready: bool = False,
    restarts: int = 0,
    last: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    return {
        "name": spec["name"],
        "image": spec["image"],
        "imageID": "",
        "ready": ready,
        "started": ready,
        "restartCount": restarts,
        "state": state,
        "lastState": last or {},
    }


def _init(spec: Mapping[str, Any], now: str) -> dict[str, Any]:
    """Returns an init container's status: a sidecar runs, others have ended."""
    if spec.get("restartPolicy") == "Always":
        return _container(spec, {"running": {"startedAt": now}}, ready=True)
    return _container(spec, terminated(0, "", now), ready=False)


def _condition(kind: str, status: str, now: str, reason: str = "") -> dict[str, str]:
    condition = {"type": kind, "status": status, "lastTransitionTime": now}
    return {**condition, "reason": reason} if reason else condition
