"""Checks of the scheduler and the queues: demand against free devices, quotas, and queues that admit nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from windlass.core.model.resources import GPU
from windlass.diagnose.cluster.node_pools import quantities, takes_pods
from windlass.diagnose.cluster.survey import (
    ClusterSurvey,
    age_s,
    find_condition,
    mapping,
    name_of,
    number,
    read,
    text,
)
from windlass.diagnose.steps import CheckStep, State, absent, ok, unseen
from windlass.jobs.kubernetes.manifest_reader import Manifest, ManifestError, ManifestField
from windlass.jobs.kubernetes.pods.pod_requests import core_name, pod_requests

_LATE_S = 60
"""Age of the scheduler's Lease after which it does not work; it renews it every two seconds."""
_SHOWN = 10
_ENDED = ("Succeeded", "Failed")


def check_queues(survey: ClusterSurvey) -> Iterator[CheckStep]:
    """Yields the steps of scheduler, demand, quotas and queues."""
    yield _check_scheduler(survey)
    yield from _check_demand(survey)
    yield _check_unschedulable(survey)
    yield _check_quotas(survey)
    yield _check_kueue(survey)
    yield _check_volcano(survey)
    yield _check_windlass(survey)


def _check_scheduler(survey: ClusterSurvey) -> CheckStep:
    name = "scheduler.lease"
    leases = {name_of(lease): lease for lease in survey.of("leases.coordination.k8s.io")}
    lease = leases.get("kube-system/kube-scheduler")
    if lease is None:
        if not survey.is_known("leases.coordination.k8s.io"):
            return unseen(name, "the Leases of kube-system may not be listed")
        return absent(name, "no Lease of kube-scheduler: a managed control plane hides it")
    late = age_s(read(lease, "spec", "renewTime"), survey.now)
    if late > _LATE_S:
        found = f"kube-scheduler has not renewed its Lease for {late:.0f} seconds"
        return CheckStep(name, State.WRONG, found, "kubectl -n kube-system logs -l component=kube-scheduler")
    return ok(name, f"held by {text(lease, 'spec', 'holderIdentity')}")


@dataclass(frozen=True, slots=True)
class _Demand:
    """Amounts of one device: of nodes that take pods, of cordoned or unready ones, of the largest node of all.

    `used`: by pods on the nodes that take pods; `wanted`: by pods that wait for a node.
    """

    total: int
    closed: int
    largest: int
    used: int
    wanted: int
    largest_request: int


def _check_demand(survey: ClusterSurvey) -> Iterator[CheckStep]:
    """Yields a step for each kind of device that nodes offer or waiting pods request."""
    if "nodes" in survey.refused or not survey.is_known("pods"):
        yield unseen("queue.demand", "needs get and list of nodes, and of pods in all namespaces")
        return
    demands = _measure_demand(survey)
    for device, demand in sorted(demands.items()):
        yield _judge_demand(f"queue.demand:{device}", device, demand)
    if not demands:
        yield absent("queue.demand", "no node offers and no pod requests a GPU")


def _judge_demand(name: str, device: str, demand: _Demand) -> CheckStep:
    free = demand.total - demand.used
    closed = f", {demand.closed} more on cordoned or unready nodes" if demand.closed else ""
    shown = f"{free} of {demand.total} free{closed}, waiting pods request {demand.wanted}"
    if demand.largest_request > demand.largest:
        found = f"a waiting pod requests {demand.largest_request}, the largest node has {demand.largest}: it never fits"
        return CheckStep(name, State.WRONG, f"{found} ({shown})", f"request fewer {device} a pod, or add larger nodes")
    if demand.wanted > max(0, free):
        found = f"{shown}: they wait until others end"
        return CheckStep(name, State.WARNING, found, "windlass why, windlass queue; or add nodes")
    return ok(name, shown)


def _measure_demand(survey: ClusterSurvey) -> dict[str, _Demand]:
    nodes = [(_devices(mapping(node, "status", "allocatable")), takes_pods(node)) for node in survey.of("nodes")]
    open_nodes = {text(node, "metadata", "name") for node in survey.of("nodes") if takes_pods(node)}
    running: list[dict[str, int]] = []
    waiting: list[dict[str, int]] = []
    for pod in survey.of("pods"):
        name = text(pod, "spec", "nodeName")
        if text(pod, "status", "phase") not in _ENDED and (not name or name in open_nodes):
            requests = {resource: count for resource, count in _requests(pod).items() if _is_device(resource)}
            (running if name else waiting).append(requests)
    kinds = {kind for each in (*(node for node, _ in nodes), *waiting) for kind in each}
    return {
        kind: _Demand(
            sum(node.get(kind, 0) for node, is_open in nodes if is_open),
            sum(node.get(kind, 0) for node, is_open in nodes if not is_open),
            max((node.get(kind, 0) for node, _ in nodes), default=0),
            sum(pod.get(kind, 0) for pod in running),
            sum(pod.get(kind, 0) for pod in waiting),
            max((pod.get(kind, 0) for pod in waiting), default=0),
        )
        for kind in kinds
    }


def _devices(amounts: object) -> Counter[str]:
    found: Counter[str] = Counter()
    for name, count in quantities(mapping({"amounts": amounts}, "amounts")).items():
        found[core_name(name)] += count
    return +found


def _requests(pod: Manifest) -> dict[str, int]:
    try:
        return pod_requests(ManifestField(mapping(pod, "spec")))
    except ManifestError:  # an amount in a form that only the API server reads
        return {}


def _is_device(resource: str) -> bool:
    return resource == GPU or resource.startswith(("mig-", "nvidia.com/", "amd.com/"))


def _check_unschedulable(survey: ClusterSurvey) -> CheckStep:
    """Reasons of schedulers, in their own words, with the pods for each."""
    name, reasons = "scheduler.unschedulable", dict[str, list[str]]()
    for pod in survey.of("pods"):
        condition = find_condition(pod, "PodScheduled")
        if condition.get("status") == "False" and condition.get("reason") != "SchedulingGated":
            reasons.setdefault(str(condition.get("message", "no message"))[:300], []).append(name_of(pod))
    if "pods" in survey.refused:
        return unseen(name, "pods may not be listed")
    if not reasons:
        return ok(name, "no pod was found unschedulable")
    lines = tuple(f"{len(pods)} pods, such as {pods[0]}: {reason}" for reason, pods in reasons.items())
    count = sum(map(len, reasons.values()))
    fix = "compare with the demand above, taints, node selectors and claims: windlass why; kubectl describe pod NAME"
    return CheckStep(name, State.WARNING, f"{count} pods find no node", fix, lines[:_SHOWN])


def _check_quotas(survey: ClusterSurvey) -> CheckStep:
    name, quotas = "queue.quotas", survey.of("resourcequotas")
    if "resourcequotas" in survey.refused:
        return unseen(name, "ResourceQuotas may not be listed", "ask for get and list of resourcequotas")
    if not quotas:
        return absent(name, "no ResourceQuota")
    full = [line for quota in quotas for line in _full_resources(quota)]
    refused = [line for each in survey.of("deployments.apps") if (line := _refused_pods(each))]
    if full or refused:
        fix = "end jobs of the namespace, or raise the quota: new pods of it are refused"
        found = f"{len(full)} limits are used up" + (f", {len(refused)} Deployments lack pods" if refused else "")
        return CheckStep(name, State.WARNING, found, fix, tuple([*refused, *full][:_SHOWN]))
    return ok(name, f"{len(quotas)} quotas have room")


def _refused_pods(deployment: Manifest) -> str:
    """Returns the message of a Deployment whose pods a quota refuses, "" for others."""
    condition = find_condition(deployment, "ReplicaFailure")
    message = str(condition.get("message", "")) if condition.get("status") == "True" else ""
    return f"{name_of(deployment)}: {message}"[:300] if "exceeded quota" in message else ""


def _full_resources(quota: Manifest) -> Iterator[str]:
    hard = quantities(mapping(quota, "status", "hard"), gpus_only=False)
    used = quantities(mapping(quota, "status", "used"), gpus_only=False)
    for resource, limit in hard.items():
        if used.get(resource, 0) >= limit:
            written = mapping(quota, "status", "used").get(resource), mapping(quota, "status", "hard")[resource]
            yield f"{name_of(quota)}: {resource} {written[0]} of {written[1]}"


def _check_kueue(survey: ClusterSurvey) -> CheckStep:
    name, queues = "queue.kueue", survey.of("clusterqueues.kueue.x-k8s.io")
    if "clusterqueues.kueue.x-k8s.io" in survey.refused:
        return unseen(name, "ClusterQueues may not be listed", "ask for get and list of clusterqueues.kueue.x-k8s.io")
    if not queues:
        return absent(name, "no ClusterQueue of Kueue")
    known = {text(queue, "metadata", "name") for queue in queues}
    lines = [
        f"{name_of(queue)}: {condition.get('reason', '')}: {condition.get('message', '')}"
        for queue in queues
        if (condition := find_condition(queue, "Active")).get("status") == "False"
    ]
    lines += [
        f"{name_of(local)}: its ClusterQueue {target} does not exist"
        for local in survey.of("localqueues.kueue.x-k8s.io")
        if (target := text(local, "spec", "clusterQueue")) not in known
    ]
    if lines:
        fix = "create the missing flavor, check or queue that the message names"
        return CheckStep(name, State.WRONG, "queues admit nothing", fix, tuple(lines[:_SHOWN]))
    waiting = sum(number(queue, "status", "pendingWorkloads") for queue in queues)
    return ok(name, f"{len(queues)} queues are active, {waiting} workloads wait")


def _check_volcano(survey: ClusterSurvey) -> CheckStep:
    name, kind = "queue.volcano", "queues.scheduling.volcano.sh"
    if kind in survey.refused:
        return unseen(name, f"{kind} may not be listed", f"ask for get and list of {kind}")
    queues = survey.of(kind)
    if not queues:
        return absent(name, "no Queue of Volcano")
    states = {name_of(queue): text(queue, "status", "state") for queue in queues}
    closed = tuple(f"{queue}: {state}" for queue, state in states.items() if state in ("Closed", "Closing"))
    if closed:
        return CheckStep(name, State.WARNING, "queues take no new jobs", "vcctl queue operate -a open", closed)
    return ok(name, f"{len(queues)} queues are open")


def _check_windlass(survey: ClusterSurvey) -> CheckStep:
    name, kind = "queue.windlass", "queues.windlass.dev"
    if kind in survey.refused:
        return unseen(name, f"{kind} may not be listed", f"ask for get and list of {kind}")
    parents = {name_of(queue): text(queue, "spec", "parent") for queue in survey.of(kind)}
    if not parents:
        return absent(name, "no Queue of Windlass")
    lost = tuple(f"{queue}: {parent}" for queue, parent in parents.items() if parent and parent not in parents)
    if lost:
        fix = "create the parent, or correct spec.parent: kubectl edit queues.windlass.dev NAME"
        return CheckStep(name, State.WRONG, "queues name a parent that does not exist", fix, lost)
    return ok(name, f"{len(parents)} queues; windlass why explains each waiting job")
