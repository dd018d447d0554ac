"""Checks of operators: workloads with known names are fully available, and the GPU operator says that it is ready."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.diagnose.cluster.node_pools import devices, group_nodes
from windlass.diagnose.cluster.survey import ClusterSurvey, find_condition, mapping, name_of, number, read, text
from windlass.diagnose.steps import CheckStep, State, absent, ok, unseen
from windlass.jobs.kubernetes.manifest_reader import Manifest

_OPERATORS = {
    "gpu-operator": (
        "gpu-operator",
        "nvidia-driver-daemonset",
        "nvidia-container-toolkit",
        "nvidia-operator-validator",
    ),
    "device-plugin": ("nvidia-device-plugin", "nvidia-gpu-device-plugin", "nvdp-", "nvidia-dra-driver"),
    "discovery": ("node-feature-discovery", "nfd-", "gpu-feature-discovery"),
    "mig-manager": ("nvidia-mig-manager",),
    "monitoring": ("nvidia-dcgm", "dcgm-exporter"),
    "network-operator": (
        "network-operator",
        "mofed",
        "rdma-shared-dp",
        "sriov-",
        "aws-efa-k8s-device-plugin",
        "kube-multus",
    ),
    "kueue": ("kueue-controller-manager",),
    "volcano": ("volcano-",),
    "kubeflow-trainer": ("kubeflow-trainer", "training-operator"),
    "mpi-operator": ("mpi-operator",),
    "jobset": ("jobset-controller",),
    "kuberay": ("kuberay-operator",),
    "windlass": ("windlass-operator",),
}
"""Operator → beginnings of the names of its Deployments and DaemonSets."""
_OF_GPUS = ("device-plugin",)
"""Operators whose pods a node needs to offer GPUs."""
_SHOWN = 10


def check_operators(survey: ClusterSurvey) -> Iterator[CheckStep]:
    """Yields a step for each operator that is installed, and one for the GPU operator's own verdict."""
    refused = [kind for kind in ("daemonsets.apps", "deployments.apps") if kind in survey.refused]
    workloads = [*survey.of("deployments.apps"), *survey.of("daemonsets.apps")]
    if refused:
        yield unseen("operator.workloads", f"{', '.join(refused)} may not be listed", f"ask for list of {refused[0]}")
    found, is_unserved = False, any(not devices(node, "allocatable") for node in _gpu_nodes_without_dra(survey))
    for operator, beginnings in _OPERATORS.items():
        if own := [each for each in workloads if text(each, "metadata", "name").startswith(beginnings)]:
            found = True
            yield _check_workloads(f"operator.{operator}", own, needs_nodes=operator in _OF_GPUS and is_unserved)
    if not found and not refused:
        yield absent("operator.workloads", "no operator that the checks know")
    yield _check_policy(survey)


def _gpu_nodes_without_dra(survey: ClusterSurvey) -> Iterator[Manifest]:
    for pool in group_nodes(survey):
        yield from (node for node in pool.gpu_nodes if text(node, "metadata", "name") not in pool.slices)


def _check_workloads(name: str, own: list[Manifest], *, needs_nodes: bool) -> CheckStep:
    lines = [line for each in own if (line := _shortage(each))]
    if not lines and needs_nodes and all(_is_nowhere(each) for each in own):
        fix = "compare nodeSelector and tolerations of the DaemonSets with labels and taints of the GPU nodes"
        shown = tuple(f"{name_of(each)}: selects no node" for each in own[:_SHOWN])
        return CheckStep(name, State.WRONG, "no node is selected, and GPU nodes offer no devices", fix, shown)
    if lines:
        fix = "kubectl describe and kubectl logs of the pods of these workloads"
        return CheckStep(
            name, State.WRONG, f"{len(lines)} of {len(own)} workloads lack pods", fix, tuple(lines[:_SHOWN])
        )
    return ok(name, ", ".join(sorted(name_of(each) for each in own)))


def _is_nowhere(workload: Manifest) -> bool:
    """Returns whether a workload is a DaemonSet that selects no node."""
    return bool(read(workload, "status", "desiredNumberScheduled") == 0)


def _shortage(workload: Manifest) -> str:
    """Returns the missing pods of a Deployment or DaemonSet, with the reason that it gives."""
    status = mapping(workload, "status")
    if "desiredNumberScheduled" in status:
        wanted, has = number(status, "desiredNumberScheduled"), number(status, "numberAvailable")
    else:
        wanted, has = number(workload, "spec", "replicas"), number(status, "availableReplicas")
    reason = find_condition(workload, "Available").get("message", "")
    return f"{name_of(workload)}: {has} of {wanted} available. {reason}".strip(" .") if has < wanted else ""


def _check_policy(survey: ClusterSurvey) -> CheckStep:
    name, kind = "operator.clusterpolicy", "clusterpolicies.nvidia.com"
    if kind in survey.refused:
        return unseen(name, f"{kind} may not be listed", f"ask for get and list of {kind}")
    policies = survey.of(kind)
    if not policies:
        return absent(name, "no ClusterPolicy of the GPU operator")
    lines = [_policy_line(policy) for policy in policies if text(policy, "status", "state") != "ready"]
    if lines:
        fix = "kubectl get pods -n gpu-operator: the first one that is not Running is the cause"
        return CheckStep(name, State.WRONG, "the GPU operator is not ready", fix, tuple(lines))
    return ok(name, "ready")


def _policy_line(policy: Manifest) -> str:
    messages = (find_condition(policy, kind).get("message") for kind in ("Error", "Ready"))
    message = next((each for each in messages if each), "no message")
    return f"{name_of(policy)}: {text(policy, 'status', 'state') or 'no state'}: {message}"
