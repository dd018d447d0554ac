"""Check of B1: the devices of a plugin in the nodes' status, and the devices that a container got."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from windlass.labs.evidence.findings import Finding
from windlass.labs.evidence.lab import Lab

DECLARED, DEVICE = "nvidia.com/gpu", "workshop.windlass.dev/gpu"
VARIABLE = "WORKSHOP_VISIBLE_DEVICES"
_OWN_DEVICE = re.compile(rf"{VARIABLE}=|gpu-\d")


def check(lab: Lab) -> Iterator[Finding]:
    """Looks at the declared GPU, at the plugin, at the pod with devices, and at the broken device."""
    # 1. a number without a device
    pods = lab.kube("pods")["items"]
    yield Finding(
        any(_amount(pod, DECLARED) and _phase(pod) == "Succeeded" for pod in pods),
        f"a pod with a declared {DECLARED} has run",
        "kubectl apply -f declared.yaml, and wait until it is Completed",
    )
    # 2. the plugin
    sets = lab.kube("apps/v1/daemonsets")["items"]
    yield Finding(
        any(each["status"].get("numberReady") for each in sets),
        "the plugin runs on the nodes",
        "kubectl create configmap plugin --from-file plugin.py, then kubectl apply -f plugin.yaml",
    )
    # 3. a pod with its devices
    yield from _trained(pods)
    # 4. a device that is broken
    nodes = [node["status"] for node in lab.kube("/api/v1/nodes")["items"]]
    yield Finding(
        any(_number(node["allocatable"]) < _number(node["capacity"]) for node in nodes),
        "a broken device has left the allocatable amount of its node, and not its capacity",
        "no device is broken: kubectl exec daemonset/plugin -- sh -c 'echo gpu-1 > /tmp/broken', then wait 10 s",
    )


def _trained(pods: list[Any]) -> Iterator[Finding]:
    """Yields whether a pod with two devices or more has succeeded, and learnt of them from the plugin."""
    wanting = [pod for pod in pods if _amount(pod, DEVICE)]
    yield Finding(
        bool(wanting),
        f"a pod requests {DEVICE}",
        "the API server refuses requests without limits, for no device is overcommitted: write the amount into limits, "
        "and apply train.yaml",
    )
    if not wanting:
        return
    pod = max(wanting, key=lambda each: (_phase(each) == "Succeeded", len(_devices(each)), _amount(each, DEVICE)))
    name, amount = pod["metadata"]["name"], _amount(pod, DEVICE)
    yield Finding(
        amount > 1, f"the pod {name} requests two devices or more", f"{name} requests one device: request two"
    )
    yield Finding(
        _phase(pod) == "Succeeded",
        f"the pod {name} has succeeded",
        f"{name} is {_phase(pod)}: no node has {amount} free devices; kubectl describe pod {name}",
    )
    yield Finding(
        not any(_names_devices(container) for container in _containers(pod)),
        f"the variable of {name} comes from the plugin",
        f"the pod sets {VARIABLE} by itself or names devices, which may be those of others: leave that to the plugin",
    )
    yield Finding(
        len(_devices(pod)) == amount,
        f"the container of {name} has learnt of its {amount} devices",
        f"it knows of {len(_devices(pod))} devices: let allocate in plugin.py answer with {VARIABLE}, renew the "
        "ConfigMap, restart the DaemonSet, and run the pod again",
    )


def _names_devices(container: Any) -> bool:
    """Whether a container sets the variable in its specification, or has a device's name in its program."""
    program = " ".join((*container.get("command", ()), *container.get("args", ())))
    return VARIABLE in (each["name"] for each in container.get("env", ())) or bool(_OWN_DEVICE.search(program))


def _containers(pod: Any) -> Any:
    return pod["spec"]["containers"]


def _phase(pod: Any) -> str:
    return str(pod["status"].get("phase"))


def _amount(pod: Any, resource: str) -> int:
    """Returns the devices of all containers."""
    return sum(int(each.get("resources", {}).get("limits", {}).get(resource, 0)) for each in _containers(pod))


def _devices(pod: Any) -> set[str]:
    """Returns the devices that the program named in /dev/termination-log."""
    states = [each.get("state", {}).get("terminated", {}) for each in pod["status"].get("containerStatuses", ())]
    words = " ".join(str(state.get("message", "")) for state in states).replace(",", " ").split()
    return {word for word in words if word.startswith("gpu-")}


def _number(amounts: Any) -> int:
    return int(amounts.get(DEVICE, 0))
