"""Checks of each node pool: readiness, runtime, device plugin or DRA, devices, labels and taints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from windlass.diagnose.cluster.node_pools import NodePool, devices, group_nodes
from windlass.diagnose.cluster.survey import (
    ClusterSurvey,
    conditions_of,
    find_condition,
    items,
    labels_of,
    read,
    text,
)
from windlass.diagnose.steps import CheckStep, State, absent, ok, unseen
from windlass.jobs.kubernetes.manifest_reader import Manifest

_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
_PLUGINS = ("nvidia-device-plugin", "nvidia-gpu-device-plugin", "nvdp-", "nvidia-dra-driver", "amdgpu-device-plugin")
"""Beginnings or parts of the names of pods that announce GPUs to the kubelet."""
_MIG_STATE = "nvidia.com/mig.config.state"
_SHOWN = 10


def check_pools(survey: ClusterSurvey) -> Iterator[CheckStep]:
    """Yields the steps of every pool; one step if the nodes may not be listed."""
    if "nodes" in survey.refused:
        yield unseen("pool.nodes", "the nodes may not be listed", "ask for get and list of nodes")
        return
    pools = group_nodes(survey)
    if not pools:
        yield CheckStep("pool.nodes", State.WRONG, "the cluster has no nodes", "add nodes: kubectl get nodes is empty")
    for pool in pools:
        yield _check_ready(pool)
        yield _check_runtime(pool)
        if not pool.gpu_nodes:
            yield absent(f"pool.gpus:{pool.name}", "no GPU, by labels and by resources")
            continue
        yield _check_plugin(survey, pool)
        yield _check_allocatable(pool)
        yield _check_mig(pool)
        yield _check_taints(pool)
    yield _check_device_classes(survey)


def _check_device_classes(survey: ClusterSurvey) -> CheckStep:
    """Devices of a DRA driver can be claimed only through a DeviceClass that selects them."""
    name = "pool.device_classes"
    drivers = {text(each, "spec", "driver") for each in survey.of("resourceslices.resource.k8s.io")} - {""}
    classes = survey.of("deviceclasses.resource.k8s.io")
    if not drivers:
        return absent(name, "no DRA driver publishes devices")
    if "deviceclasses.resource.k8s.io" in survey.refused:
        return unseen(name, "DeviceClasses may not be listed", "ask for list of deviceclasses.resource.k8s.io")
    selected = " ".join(str(read(each, "spec")) + text(each, "metadata", "name") for each in classes)
    if lost := sorted(driver for driver in drivers if driver not in selected):
        fix = "install the DeviceClasses of the driver's Helm chart: kubectl get deviceclasses"
        return CheckStep(name, State.WRONG, f"no DeviceClass selects the devices of {', '.join(lost)}", fix)
    return ok(name, f"devices of {', '.join(sorted(drivers))} can be claimed")


def _check_ready(pool: NodePool) -> CheckStep:
    name, faults = f"pool.ready:{pool.name}", [fault for node in pool.nodes for fault in _node_faults(node)]
    cordoned = [text(node, "metadata", "name") for node in pool.nodes if read(node, "spec", "unschedulable")]
    if faults:
        fix = "kubectl describe node NAME; journalctl -u kubelet on the node"
        return CheckStep(
            name, State.WRONG, f"{len(faults)} faults on {len(pool.nodes)} nodes", fix, tuple(faults[:_SHOWN])
        )
    if cordoned:
        found = f"{len(cordoned)} of {len(pool.nodes)} nodes are cordoned"
        return CheckStep(
            name, State.WARNING, found, "kubectl uncordon NAME, when their repair is done", tuple(cordoned)
        )
    return ok(name, f"{len(pool.nodes)} nodes are ready")


def _node_faults(node: Manifest) -> Iterator[str]:
    ready, name = find_condition(node, "Ready"), text(node, "metadata", "name")
    if ready.get("status") != "True":
        yield f"{name}: not ready, {ready.get('reason', 'no condition')}: {ready.get('message', '')}".rstrip(": ")
    for each in conditions_of(node):
        if each.get("type") in _PRESSURES and each.get("status") == "True":
            yield f"{name}: {each['type']}: {each.get('message', '')}".rstrip(": ")


def _check_runtime(pool: NodePool) -> CheckStep:
    """Different versions within a pool are the usual reason why one node of it behaves differently."""
    name = f"pool.runtime:{pool.name}"
    facts = ("containerRuntimeVersion", "kubeletVersion", "kernelVersion")
    versions = {fact: Counter(text(node, "status", "nodeInfo", fact) for node in pool.nodes) for fact in facts}
    mixed = {fact: counts for fact, counts in versions.items() if len(counts) > 1}
    if mixed:
        lines = tuple(f"{fact}: {_counted(counts)}" for fact, counts in mixed.items())
        fix = "finish the upgrade of the pool, or replace the older nodes"
        return CheckStep(name, State.WARNING, "nodes of one pool have different versions", fix, lines)
    return ok(name, ", ".join(next(iter(counts)) for counts in versions.values() if any(counts)) or "not reported")


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count} × {value or 'none'}" for value, count in counts.most_common())


def _check_plugin(survey: ClusterSurvey, pool: NodePool) -> CheckStep:
    """The plugin runs as a pod on every GPU node, except where a cloud's node image contains it."""
    name = f"pool.device_plugin:{pool.name}"
    gpu_nodes = _node_names(pool.gpu_nodes)
    plugins = {text(pod, "spec", "nodeName"): pod for pod in survey.of("pods") if _is_plugin(pod)}
    broken = [_pod_line(plugins[node]) for node in sorted(gpu_nodes & plugins.keys()) if not _is_ready(plugins[node])]
    if broken:
        fix = "kubectl logs of these pods; usually the driver or its libraries are missing on the node"
        found = f"the device plugin is not ready on {len(broken)} of {len(gpu_nodes)} GPU nodes"
        return CheckStep(name, State.WRONG, found, fix, tuple(broken[:_SHOWN]))
    served = gpu_nodes & (
        plugins.keys() | pool.slices | _node_names(n for n in pool.nodes if devices(n, "allocatable"))
    )
    if missing := sorted(gpu_nodes - served):
        if not survey.is_known("pods"):
            return unseen(name, "pods of all namespaces may not be listed", "ask for list of pods in all namespaces")
        fix = "install the GPU operator or the device plugin; check that its DaemonSet tolerates the nodes' taints"
        return CheckStep(
            name, State.WRONG, f"nothing announces the GPUs of {len(missing)} nodes", fix, tuple(missing[:_SHOWN])
        )
    ways = [f"device plugin on {len(gpu_nodes & plugins.keys())}"] if plugins else []
    ways += [f"DRA on {len(pool.slices)}"] if pool.slices else []
    return ok(name, f"{' and '.join(ways) or 'announced by the node itself'}, of {len(gpu_nodes)} GPU nodes")


def _is_plugin(pod: Manifest) -> bool:
    name = text(pod, "metadata", "name")
    return any(part in name for part in _PLUGINS)


def _is_ready(pod: Manifest) -> bool:
    return find_condition(pod, "Ready").get("status") == "True"


def _pod_line(pod: Manifest) -> str:
    waiting = [read(each, "state", "waiting", "reason") for each in items(pod, "status", "containerStatuses")]
    reason = next((each for each in waiting if each), text(pod, "status", "phase") or "no status")
    return f"{text(pod, 'spec', 'nodeName')}: {text(pod, 'metadata', 'name')}: {reason}"


def _node_names(nodes: Iterable[Manifest]) -> frozenset[str]:
    return frozenset(text(node, "metadata", "name") for node in nodes)


def _check_allocatable(pool: NodePool) -> CheckStep:
    """Devices that the kubelet withholds are unhealthy; a node with none has no working driver or plugin."""
    name = f"pool.allocatable:{pool.name}"
    lines = [line for node in pool.gpu_nodes if (line := _device_fault(node, pool.slices))]
    if lines:
        found = f"{len(lines)} of {len(pool.gpu_nodes)} GPU nodes offer fewer devices than they have"
        fix = "on the node: windlass doctor host; then the logs of its device plugin: an unhealthy GPU is withheld"
        return CheckStep(name, State.WRONG, found, fix, tuple(lines[:_SHOWN]))
    total: Counter[str] = Counter()
    for node in pool.gpu_nodes:
        total.update(devices(node, "allocatable"))
    return ok(name, ", ".join(f"{count} × {kind}" for kind, count in sorted(total.items())) or "by DRA only")


def _device_fault(node: Manifest, slices: frozenset[str]) -> str:
    has, offers, name = devices(node, "capacity"), devices(node, "allocatable"), text(node, "metadata", "name")
    if not offers and name not in slices:
        return f"{name}: has GPUs by its labels, offers none"
    withheld = [
        f"{kind} {offers.get(kind, 0)} of {count}" for kind, count in has.items() if offers.get(kind, 0) < count
    ]
    return f"{name}: {', '.join(withheld)}" if withheld else ""


def _check_mig(pool: NodePool) -> CheckStep:
    name = f"pool.mig:{pool.name}"
    states = {text(node, "metadata", "name"): str(labels_of(node).get(_MIG_STATE, "")) for node in pool.gpu_nodes}
    wrong = [f"{node}: {state}" for node, state in states.items() if state not in ("", "success")]
    if any(state == "failed" for state in states.values()):
        fix = "stop the pods on the GPUs of these nodes, set nvidia.com/mig.config again; kubectl logs of mig-manager"
        return CheckStep(name, State.WRONG, "a MIG layout could not be applied", fix, tuple(wrong))
    if wrong:
        fix = "wait for mig-manager; after 15 minutes read its logs"
        return CheckStep(name, State.WARNING, "a MIG layout is being applied", fix, tuple(wrong))
    return ok(name, "layouts applied") if any(states.values()) else absent(name, "no MIG layouts")


def _check_taints(pool: NodePool) -> CheckStep:
    taints = {f"{each.get('key')}={each.get('value', '')}:{each.get('effect')}" for each in _taints(pool.gpu_nodes)}
    name, shown = f"pool.taints:{pool.name}", ", ".join(sorted(taints))
    return ok(name, f"pods must tolerate {shown}" if shown else "none: pods without GPUs may fill these nodes")


def _taints(nodes: Sequence[Manifest]) -> Iterator[dict[str, str]]:
    """Yields the taints that administrators chose; those of Kubernetes tell what other steps say."""
    found = (taint for node in nodes for taint in items(node, "spec", "taints") if isinstance(taint, dict))
    return (taint for taint in found if not str(taint.get("key", "")).startswith("node.kubernetes.io/"))
