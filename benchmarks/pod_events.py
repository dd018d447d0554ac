"""CPU time of the Kubernetes backend for one event of a pod, in a gang of 8 pods and in one of 2,000.

There is no API server: the backend gets pods as from its watch, and handles each event before the next one comes.
Three gangs: a TrainingJob, whose pods restart together; a PyTorchJob, whose pods restart one by one; and a PodGroup of
the coscheduling dialect with pods of another controller.
"""

import asyncio
import gc
import json
import statistics
import time
from typing import Any, cast

import msgspec

from windlass.backends.kubernetes.backend import KubernetesBackend
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.client.resources import Resource, named
from windlass.backends.kubernetes.external import binding_annotations
from windlass.backends.kubernetes.external.binding_annotations import BindingDecision
from windlass.backends.kubernetes.gangs import stored_state
from windlass.backends.kubernetes.gangs.stored_state import Stored
from windlass.core.model.status import Phase, Placement, Status

SMALL, LARGE, ROUNDS = 8, 2_000, 5
AT = 1_767_268_800_000
TRAINING = named("windlass.dev/v1alpha1", "trainingjobs", "TrainingJob")
PYTORCH = named("kubeflow.org/v1", "pytorchjobs", "PyTorchJob")
POD_GROUP = named("scheduling.x-k8s.io/v1alpha1", "podgroups", "PodGroup")


class NoServer:
    """A connection that accepts every request and never answers."""

    def __init__(self) -> None:
        self.counters: Any = None

    def __getattr__(self, _name: str) -> Any:
        async def never(*_args: object, **_options: object) -> Any:
            await asyncio.Event().wait()

        return never


def main() -> None:
    asyncio.run(measure())


async def measure() -> None:
    for kind, fill in (("TrainingJob", training), ("PyTorchJob", pytorch), ("PodGroup", pod_group)):
        small = statistics.median([await per_event(fill, SMALL) for _ in range(ROUNDS)])
        large = await per_event(fill, LARGE)
        print(f"{kind}: {small:.0f} µs per event in a gang of {SMALL}, {large:.0f} µs in one of {LARGE:,}")
        claim(f"event of a pod in a gang of 2,000, {kind}", large / 1000, "ms", 1)
        claim(f"event of a pod, gang of 2,000 against gang of 8, {kind}", large / small, "×", 4)


async def per_event(fill: Any, members: int) -> float:
    """Microseconds for each pod of a gang to change from Pending to Running."""
    backend = KubernetesBackend(cast("Connection", NoServer()), lambda: AT)
    pods = fill(backend, members)
    for pod in pods:
        backend.pods.learn(decoded(pod))
    backend.recover()
    await turn(backend)
    later = [decoded(running(pod)) for pod in pods]
    gc.collect()
    gc.freeze()
    began = time.process_time()
    for pod in later:
        backend.pods.learn(pod)
        await turn(backend)
    took = time.process_time() - began
    await backend.close()
    return took / len(pods) * 1e6


async def turn(backend: KubernetesBackend) -> None:
    """Let the backend handle what it has seen, and take its events."""
    backend.wake()
    await backend.wait(0)


def training(backend: KubernetesBackend, members: int) -> list[dict[str, Any]]:
    spec = {"image": "x", "command": "python train.py", "nodes": members}
    return running_job(backend, TRAINING, spec, members, "worker")


def pytorch(backend: KubernetesBackend, members: int) -> list[dict[str, Any]]:
    template = {"spec": {"containers": [{"name": "pytorch", "image": "x"}]}}
    spec = {"pytorchReplicaSpecs": {"Worker": {"replicas": members, "template": template}}}
    return running_job(backend, PYTORCH, spec, members, "Worker")


def running_job(
    backend: KubernetesBackend, resource: Resource, spec: dict[str, Any], members: int, role: str
) -> list[dict[str, Any]]:
    """Add a running job to the backend and return its pods."""
    about = {"name": "digits", "namespace": "ml", "uid": "u", "resourceVersion": "1", "generation": 1}
    manifest = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": about, "spec": spec}
    nodes = {name: tuple(f"n{n // 8}" for n in range(members)) for name in (role.lower(), role)}
    placement = Placement({role.lower(): nodes[role.lower()]})
    status = Status(Phase.ADMITTED, "Admitted", generation=1, placement=placement, is_gone=False, admitted_at=AT)
    manifest["status"] = {stored_state.FIELD: stored_state.to_patch(Stored(1, 1, status))}
    backend.job_reader.update(resource, manifest)
    (gang,) = backend.jobs
    names = gang.members(1, gang.sizes)
    return [
        a_pod(name, f"n{n // 8}", {"windlass.dev/generation": "1"}, owner="u") | {"spec": placed(f"n{n // 8}")}
        for n, name in enumerate(names)
    ]


def pod_group(backend: KubernetesBackend, members: int) -> list[dict[str, Any]]:
    about = {"name": "g", "namespace": "ml", "uid": "g", "resourceVersion": "1"}
    manifest = {"metadata": about, "spec": {"minMember": members}}
    backend.external.see_object(POD_GROUP, manifest, there=True)
    labels = {"scheduling.x-k8s.io/pod-group": "g"}
    pods = [a_pod(f"g-{n}", f"n{n // 8}", labels, owner="other") for n in range(members)]
    decision = BindingDecision("g", {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in pods})
    for pod in pods:
        pod["metadata"]["annotations"] = dict(binding_annotations.reference_annotation("uid-g-0"))
    pods[0]["metadata"]["annotations"] = dict(binding_annotations.decision_annotation(decision))
    return pods


def a_pod(name: str, node: str, labels: dict[str, str], owner: str) -> dict[str, Any]:
    references = [{"uid": owner, "controller": True, "kind": "x", "name": "x"}]
    about = {"name": name, "namespace": "ml", "uid": f"uid-{name}", "resourceVersion": "1", "labels": labels}
    made = {"creationTimestamp": "2026-01-01T12:00:00Z", "ownerReferences": references}
    return {"metadata": about | made, "spec": placed(node), "status": {"phase": "Pending"}}


def placed(node: str) -> dict[str, Any]:
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return {"schedulerName": "windlass", "nodeName": node, "containers": [container]}


def running(pod: dict[str, Any]) -> dict[str, Any]:
    return {**pod, "metadata": pod["metadata"] | {"resourceVersion": "2"}, "status": {"phase": "Running"}}


def decoded(pod: dict[str, Any]) -> Pod:
    return msgspec.json.decode(json.dumps(pod), type=Pod)


def claim(text: str, measured: float, unit: str, target: float) -> None:
    print(json.dumps({"claim": text, "measured": round(measured, 4), "unit": unit, "target": target}))


if __name__ == "__main__":
    main()
