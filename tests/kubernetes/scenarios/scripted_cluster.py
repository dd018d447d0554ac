"""Nodes, queues, the policy and the topology levels of a script, as objects of the API server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from stage import RESOURCES

from windlass.backends.kubernetes.backend import KubernetesBackend
from windlass.backends.kubernetes.cluster.cluster_state import ClusterState
from windlass.controlplane import fake_status
from windlass.controlplane.api import Api
from windlass.controlplane.fake_pod import now as stamp
from windlass.core.model.resources import GPU_TYPE
from windlass.jobs.kubernetes.status.status_times import rfc3339

OURS = "/apis/windlass.dev/v1alpha1"
QUEUES, POLICIES, NODES = f"{OURS}/queues", f"{OURS}/schedulingpolicies", "/api/v1/nodes"
CLUSTER_VERBS = ("topology", "nodes", "queue", "policy", "cordon", "remove", "unreachable", "reachable", "lost")
DEVICES = {"gpu": "nvidia.com/gpu", "cpu": "cpu", "memory": "memory"}
CORDONED = {"spec": {"unschedulable": True}, "metadata": {"annotations": {"windlass.dev/cordoned": "by ada"}}}
OUT_OF_SERVICE = {
    "spec": {"taints": [{"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}]}
}
OPEN: dict[str, Any] = {"namespaceSelector": {}, "max_priority": 1_000_000_000}
"""Fields of every queue: scripts know no namespaces, and their priorities are numbers."""
CAPACITY = {"cpu": "128", "memory": "1Ti", "pods": "110"}
"""Capacity of every node, unless the script gives another."""


class ScriptedCluster:
    """`change` returns when the backend's watches have seen the change. `until` waits for an object."""

    def __init__(
        self,
        api: Api,
        world: Callable[[], KubernetesBackend | None],
        until: Callable[[Callable[[], bool | None]], Awaitable[bool]],
    ) -> None:
        self._api, self._world, self._until = api, world, until
        self._policy: dict[str, Any] = {}
        self._levels: list[str] = []

    async def change(self, verb: str, words: list[str], options: dict[str, str]) -> None:
        if verb == "topology":
            self._levels = words
            self._policy["topology"] = [{"level": name, "labels": [_label(name)]} for name in words]
            await self._declare(POLICIES, "default", self._policy, self._book.policies)
        if verb == "policy":
            self._policy |= {name.replace("-", "_"): text for name, text in options.items()}
            await self._declare(POLICIES, "default", self._policy, self._book.policies)
        for name in words:
            if verb == "queue":
                await self._declare(QUEUES, name, queue(options), self._book.queues)
            if verb == "nodes":
                await self._put_node(name, options)
            if verb == "cordon":
                await self._seen(await self._api.patch(f"{NODES}/{name}", CORDONED))
            if verb in ("unreachable", "reachable"):
                await self._report_ready(name, "True" if verb == "reachable" else "Unknown")
            if verb == "lost":
                await self._seen(await self._api.patch(f"{NODES}/{name}", OUT_OF_SERVICE))
            if verb == "remove":
                await self._api.delete(f"{NODES}/{name}", gracePeriodSeconds=0)
                await self._until(lambda gone=name: gone not in self._book.picture.objects or None)

    @property
    def _book(self) -> ClusterState:
        world = self._world()
        assert world is not None
        return world.cluster

    async def _declare(self, path: str, name: str, spec: dict[str, Any], held: dict[str, dict[str, Any]]) -> None:
        kind = {QUEUES: "Queue", POLICIES: "SchedulingPolicy"}[path]
        body = {"apiVersion": "windlass.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        made = await self._api.patch(f"{path}/{name}", body, "apply", fieldManager="scenario", force="true")
        version = made["metadata"]["resourceVersion"]
        await self._until(lambda: held.get(name, {}).get("metadata", {}).get("resourceVersion") == version or None)

    async def _put_node(self, name: str, options: dict[str, str]) -> None:
        allocatable = CAPACITY | {DEVICES[key]: options[key] for key in RESOURCES if key in options}
        parts = [part for part in options.get("place", "").split("/") if part]
        labels = {_label(level): part for level, part in zip(self._levels, parts, strict=False)}
        labels |= {label: options[label] for label in ("zone", GPU_TYPE) if label in options}
        taints = [{"key": options["taint"], "effect": "NoSchedule"}] if "taint" in options else None
        body = fake_status.node(name, stamp(), "10.0.0.1", allocatable, labels)
        if name not in self._book.picture.objects:
            await self._api.post(NODES, body)
            # the node is ready, and a node controller removes the taint of new nodes
            await self._seen(await self._api.patch(f"{NODES}/{name}", {"spec": {"taints": taints}}))
            return
        spec = {"unschedulable": None, "taints": taints}
        await self._api.patch(f"{NODES}/{name}", {"metadata": body["metadata"], "spec": spec})
        await self._seen(await self._api.patch(f"{NODES}/{name}/status", {"status": body["status"]}))

    async def _report_ready(self, name: str, status: str) -> None:
        """Sets the condition Ready, as the node controller does, at the script's time."""
        world = self._world()
        assert world is not None
        condition = {"type": "Ready", "status": status, "lastTransitionTime": rfc3339(world.now())}
        patch = {"status": {"conditions": [condition]}}
        await self._seen(await self._api.patch(f"{NODES}/{name}/status", patch))

    async def _seen(self, node: dict[str, Any]) -> None:
        about = node["metadata"]

        def seen() -> bool | None:
            found = self._book.picture.objects.get(about["name"])
            return (found is not None and found.metadata.resource_version == about["resourceVersion"]) or None

        await self._until(seen)


def default_queue() -> dict[str, Any]:
    """The Queue that scripts do not declare."""
    return {"apiVersion": "windlass.dev/v1alpha1", "kind": "Queue", "metadata": {"name": "default"}, "spec": OPEN}


def queue(options: dict[str, str]) -> dict[str, Any]:
    """The spec of a Queue."""
    quota = {name: _amount(options[name]) for name in RESOURCES if name in options}
    fields: dict[str, Any] = {"quota": quota, **OPEN}
    for option, text in options.items():
        name = option.replace("-", "_")
        if option in ("parent", "half-life"):
            fields[name] = text
        elif option in ("weight", "max-running", "user-running"):
            fields[name] = int(text)
        elif option in ("borrowing", "lending", "user-limits"):
            pairs = (part.split(":") for part in text.split(","))
            fields[name] = {resource: _amount(amount) for resource, amount in pairs}
    return fields


def _amount(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def _label(level: str) -> str:
    return f"scenario.example/{level}"
