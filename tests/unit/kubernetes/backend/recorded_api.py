"""A controller on the Kubernetes backend, and an API server in memory that notes what is bound."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import msgspec

from windlass.backends.kubernetes.backend import KubernetesBackend
from windlass.backends.kubernetes.client import objects
from windlass.backends.kubernetes.client.object_cache import Change, ObjectRevision
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.client.resources import EVENTS, named
from windlass.backends.kubernetes.settings import BackendSettings
from windlass.controller.controller import Controller

TRAINING = named("windlass.dev/v1alpha1", "trainingjobs", "TrainingJob")
NOON = 1_767_268_800_000


def put_namespace(backend: KubernetesBackend, **labels: str) -> None:
    """Lists the namespace "ml", or changes its labels."""
    about = {"name": "ml", "uid": "ns", "resourceVersion": "1", "labels": labels}
    namespace = objects.namespace(json.dumps({"metadata": about}).encode())
    backend.monitor.lookups.see_namespaces([Change("modified", namespace)])


class RecordedApi:
    """Takes every request. `bound`: the node of each pod; a pod that is created with a node is bound as well."""

    def __init__(self) -> None:
        self.bound: dict[str, str] = {}
        self.deleted: list[str] = []
        self.events: list[dict[str, Any]] = []
        """Events with the reason ObjectFault."""
        self.announced: list[dict[str, Any]] = []
        """All other Events; one that is counted again is listed again."""
        self.statuses: dict[str, dict[str, Any]] = {}
        """By name of an object: its status."""
        self.versions = 100
        self.counters = SimpleNamespace(bindings=SimpleNamespace(observe=lambda _seconds: None))

    async def request(self, _method: str, _path: str, *, body: dict[str, Any]) -> bytes:
        made = body | {"metadata": body["metadata"] | {"uid": f"uid-{body['metadata']['name']}"} | self._version()}
        if node := body["spec"].get("nodeName"):
            self.bound[body["metadata"]["name"]] = node
        return json.dumps(made | {"status": {"phase": "Pending"}}).encode()

    async def bind(self, _namespace: str, name: str, _uid: str, node: str, **_: Any) -> None:
        self.bound[name] = node

    async def create(self, _resource: object, body: dict[str, Any]) -> dict[str, Any]:
        if body["kind"] == "Event":
            (self.events if body["reason"] == "ObjectFault" else self.announced).append(body)
        return body | {"metadata": body["metadata"] | {"uid": "made"} | self._version()}

    async def patch(self, resource: object, namespace: str, name: str, body: dict[str, Any], **_: Any) -> Any:
        if resource == EVENTS:
            first = next(each for each in (*self.announced, *self.events) if each["metadata"]["name"] == name)
            self.announced.append(first | body)
            return first | body
        about = {"namespace": namespace, "name": name, **body["metadata"], **self._version()}
        before = self.statuses.get(name, {})
        self.statuses[name] = {**before, **body["status"]}
        return {"metadata": about, "status": self.statuses[name]}

    async def delete(self, _resource: object, _namespace: str, name: str, **_: Any) -> None:
        self.deleted.append(name)

    def _version(self) -> dict[str, str]:
        self.versions += 1
        return {"resourceVersion": str(self.versions)}


class Cluster:
    """Nodes with two GPUs each, jobs and pods of one TrainingJob or of others, and the turns of the controller.

    `has_namespace`: whether the namespace of the jobs is listed from the beginning. `wait_settling`: milliseconds
    for which a job waits for an object before its owner is told.
    """

    def __init__(
        self, *nodes: str, api: RecordedApi | None = None, has_namespace: bool = True, wait_settling: int = 0
    ) -> None:
        self.api, self.now, self.versions = api or RecordedApi(), NOON, 0
        settings = BackendSettings(cluster_settling=0, failure_settling=0, wait_settling=wait_settling)
        self.backend = KubernetesBackend(self.api, lambda: self.now, settings)  # type: ignore[arg-type]
        for name in nodes:
            self.put_node(name)
        if has_namespace:
            self.put_namespace()

    def put_namespace(self, **labels: str) -> None:
        """Lists the namespace of the jobs, or changes its labels."""
        put_namespace(self.backend, **labels)

    def put_node(self, name: str, **spec: Any) -> None:
        about = {"name": name, "uid": name, "resourceVersion": self._version()}
        allocatable = {"nvidia.com/gpu": "2", "cpu": "64", "memory": "256Gi", "pods": "110"}
        status = {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]}
        self.backend.cluster.see_node(objects.node(json.dumps({"metadata": about, "spec": spec, "status": status})))
        self.backend.monitor.check()

    def put_job(self, status: dict[str, Any] | None = None, **spec: Any) -> None:
        about = {"name": "digits", "namespace": "ml", "uid": "u", "resourceVersion": "1", "generation": 1}
        manifest = {"apiVersion": TRAINING.api_version, "kind": TRAINING.kind, "metadata": about}
        manifest |= {"status": status} if status else {}
        self.backend.job_reader.update(
            TRAINING, manifest | {"spec": {"image": "x", "command": "torchrun train.py", **spec}}
        )

    def put_pod(
        self, name: str, gpus: int, node: str = "", scheduler: str = "another", priority: int = 0, **about: Any
    ) -> Pod:
        """A pod of other writers; with `scheduler="windlass"` an external gang of its own."""
        container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
        spec = {
            "schedulerName": scheduler,
            "containers": [container],
            "priority": priority,
            **({"nodeName": node} if node else {}),
        }
        named = {"namespace": "ml", "name": name, "uid": f"uid-{name}", "resourceVersion": self._version(), **about}
        pod = msgspec.convert({"metadata": named, "spec": spec, "status": {"phase": "Pending"}}, Pod)
        self.backend.pods.learn(pod)
        return pod

    def remove_pod(self, pod: Pod) -> None:
        about = pod.metadata
        revision = ObjectRevision(about.namespace, about.name, about.uid, 10_000)
        self.backend.pods.apply(self.backend.pods.fresh.remove(revision))

    async def lead(self) -> None:
        backend = self.backend
        self.controller = Controller(
            backend.recover(), backend.finished, refuses=False, report_fault=backend.report_job_fault
        )
        changes = self.controller.take_over(self.now)
        await self.backend.commit(changes)
        self.backend.perform(changes.commands)

    async def decide(self) -> list[Any]:
        """One turn up to the commit; returns the commands that are still to be performed."""
        self.backend.wake()
        events = await self.backend.wait(None)
        changes = self.controller.turn(events, self.now)
        assert await self.backend.commit(changes) == {}
        return list(changes.commands)

    async def run(self, turns: int = 8) -> None:
        """Turns of the controller, with time for requests between them."""
        for _ in range(turns):
            self.backend.perform(await self.decide())
            await asyncio.sleep(0.01)

    def status(self, job_id: str) -> Any:
        return self.controller.states[job_id].status

    def _version(self) -> str:
        self.versions += 1
        return str(self.versions)


def play(story: Callable[[Cluster], Coroutine[Any, Any, None]], *nodes: str) -> None:
    """Runs a coroutine with a cluster of these nodes."""

    async def whole() -> None:
        cluster = Cluster(*nodes)
        try:
            await story(cluster)
        finally:
            await cluster.backend.close()

    asyncio.run(whole())
