"""Finds violations of invariants in a settled cluster, from API objects and kubelets alone, without the operator."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from windlass.controlplane.api import Api
from windlass.controlplane.fake_kubelet import FakeKubelets
from windlass.jobs.kubernetes.pods.pod_assembly import GENERATION

from .jobs import GPU, JOB_LISTS
from .witness import by_node

ENDED = {"Succeeded": "Succeeded", "Failed": "Failed"}
Objects = Mapping[str, dict[str, Any]]
"""By uid."""


async def find_violations(api: Api, kubelets: FakeKubelets, *, alone: bool = True) -> list[str]:
    """Violations as sentences; empty if there are none. `alone`: no other scheduler is active."""
    jobs = {uid: job for path in JOB_LISTS for uid, job in (await _listed(api, path)).items()}
    pods = await _listed(api, "/api/v1/pods")
    beside = [*(await _listed(api, "/api/v1/services")).values(), *(await _listed(api, "/api/v1/configmaps")).values()]
    found = [f"{each['metadata']['name']} was put where it has no room" for each in kubelets.refused if alone]
    found += _orphans(jobs, [*pods.values(), *beside])
    for uid, job in jobs.items():
        mine = [pod for pod in pods.values() if _owner(pod) == uid]
        found += [f"{job['kind']} {job['metadata']['name']}: {what}" for what in _of_job(job, mine)]
    found += _waits_in_vain(jobs, list(pods.values()), kubelets)
    found += _of_groups(list(pods.values()))
    return found


async def _listed(api: Api, path: str) -> Objects:
    return {each["metadata"]["uid"]: each for each in (await api.get(path))["items"]}


def _owner(thing: dict[str, Any]) -> str:
    return next((each["uid"] for each in thing["metadata"].get("ownerReferences", ())), "")


def _orphans(jobs: Objects, things: list[dict[str, Any]]) -> Iterator[str]:
    for each in things:
        ours = GENERATION in each["metadata"].get("labels", {}) or _owner(each)
        if ours and _owner(each) not in jobs:
            yield f"{each['metadata']['name']} has no living owner"


def _of_job(job: dict[str, Any], pods: list[dict[str, Any]]) -> Iterator[str]:
    status = job.get("status") or {}
    kept = status.get("windlass")
    if kept is None:
        yield "nobody has taken it in"
        return
    phase, generation = kept["phase"], str(kept["generation"])
    mine = [pod for pod in pods if pod["metadata"]["labels"].get(GENERATION) == generation]
    # 1. its conditions agree with its state
    true = {each["type"] for each in status.get("conditions", ()) if each["status"] == "True"}
    for condition in ENDED:
        if (condition in true) != (phase == condition):
            yield f"is {phase}, and its conditions say {sorted(true)}"
    # 2. all its pods are bound, or none
    placed = [pod for pod in pods if pod["spec"].get("nodeName") and pod["status"]["phase"] in ("Pending", "Running")]
    if phase in ("Running", "Admitted") and len(mine) != _size(job):
        yield f"is {phase} with {len(mine)} pods of {_size(job)}"
    if phase in ("Running", "Admitted") and not all(pod["spec"].get("nodeName") for pod in mine):
        yield f"is {phase} and bound in part"
    if phase not in ("Running", "Admitted") and placed:
        yield f"is {phase}, and {len(placed)} of its pods are on nodes"
    # 3. the counts are those of its pods
    if phase == "Running":
        active = sum(each.get("active", 0) for each in (status.get("replicaStatuses") or {}).values())
        run = Counter(pod["status"]["phase"] for pod in mine)["Running"]
        if active != run:
            yield f"says that {active} pods run, and {run} do"


def _size(job: dict[str, Any]) -> int:
    spec = job["spec"]
    if "pytorchReplicaSpecs" in spec:
        return sum(int(each.get("replicas", 1)) for each in spec["pytorchReplicaSpecs"].values())
    return int(spec.get("nodes", 1))


def _waits_in_vain(jobs: Objects, pods: list[dict[str, Any]], kubelets: FakeKubelets) -> Iterator[str]:
    """Pending pods that would fit: every pod requests one device, so counting is enough."""
    taken = by_node(pod for pod in pods if pod["status"]["phase"] in ("Pending", "Running"))
    usable = [node for node in kubelets.nodes.values() if node.answers.is_set()]
    free = sum(max(0, node.devices.get(GPU, 0) - taken[node.name]) for node in usable)
    for job in jobs.values():
        if (job.get("status") or {}).get("windlass", {}).get("phase") == "Queued" and _size(job) <= free:
            yield f"{job['metadata']['name']} waits, and {free} devices are free"


def _of_groups(pods: list[dict[str, Any]]) -> Iterator[str]:
    groups: dict[str, list[bool]] = defaultdict(list)
    for pod in pods:
        if group := pod["metadata"].get("labels", {}).get("scheduling.x-k8s.io/pod-group"):
            groups[group].append(bool(pod["spec"].get("nodeName")))
    for name, placed in groups.items():
        if any(placed) and not all(placed):
            yield f"the group {name} is bound in part"
