"""Fake kubelets: nodes without machines, on which bound pods run, end and are lost as a test requests.

One loop serves thousands of nodes. In a test's own event loop:

    async with FakeKubelets(plane.admin) as fake:
        await fake.add_nodes(["n1", "n2"], gpus=8)
        ...                                      # bind pods to n1: they run
        await fake.end("default", "trainer-0", End(code=1))
        await fake.silence("n2")                 # its pods stay Terminating when they are deleted
        await fake.revive("n2")

A pod's own behaviour is its `Script`, by annotation (`Script(work=1.0, code=3).annotation()`) or by the function
`script_of`. `background.Background` holds them for tests that are not async; `tools/control_plane.py` for people.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

import aiohttp

from . import fake_status as status
from .api import Api, ApiError
from .fake_pod import End, FakePod, Script, annotated, now, run_pod
from .fake_status import Patch, Pod
from .kubeconfig import Access

PODS = "/api/v1/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
BOUND = {"fieldSelector": "spec.nodeName!="}
AGAIN = 0.2
"""Seconds between two tries when the API server does not answer."""
AT_ONCE = 64
"""Requests in flight: more only add latency."""


@dataclass
class FakeNode:
    """A node without a machine."""

    name: str
    address: str
    devices: Mapping[str, int]
    """Amounts of counted resources, such as nvidia.com/gpu."""
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    pods: dict[str, FakePod] = field(default_factory=dict)
    """By uid."""

    def refusal(self, pod: FakePod) -> tuple[str, str] | None:
        """Returns reason and message if a kubelet would reject this pod beside those on the node; else None."""
        there = [each.devices for each in self.pods.values() if each.task and not each.has_ended]
        for name, wanted in pod.devices.items():
            used = sum(devices.get(name, 0) for devices in there)
            if used + wanted > (has := self.devices.get(name, 0)):
                counts = f"requested: {wanted}, used: {used}, capacity: {has}"
                return f"OutOf{name}", f"Node didn't have enough resource: {name}, {counts}"
        return None


class FakeKubelets:
    """The nodes that were added, and the pods bound to them. `start`: seconds from the binding to Running.

    `network`: the first number of the pods' addresses; 127 for addresses from which a test can connect.
    """

    def __init__(
        self,
        access: Access,
        *,
        start: float = 0.0,
        heartbeat: float = 10.0,
        lease: int = 40,
        script_of: Callable[[Pod], Script] = annotated,
        network: int = 10,
    ) -> None:
        self.api = Api(access, connections=AT_ONCE + 2)
        self.start = start
        self.heartbeat = heartbeat
        """Seconds between a node's renewals of its lease of `lease` seconds; 0: never."""
        self.lease = lease
        self.script_of = script_of
        self.broken_images: set[str] = set()
        self.nodes: dict[str, FakeNode] = {}
        self.pods: dict[str, FakePod] = {}
        """By uid; includes pods that the API has lost, as long as their containers run."""
        self.refused: list[Pod] = []
        """Pods that exceeded the free devices of their node: errors of the scheduler that bound them."""
        self.started = 0
        """Number of pods that became Running."""
        self._addresses = (f"{network}.{a}.{b}.{c}" for a in range(128, 255) for b in range(256) for c in range(1, 255))
        self._room = asyncio.Semaphore(AT_ONCE)
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        await self.api.__aenter__()
        self._tasks = [asyncio.create_task(self._follow()), asyncio.create_task(self._renew_leases())]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks = [*self._tasks, *(pod.task for pod in self.pods.values() if pod.task)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.api.__aexit__(kind, error, trace)

    async def add_nodes(
        self,
        names: Sequence[str],
        *,
        gpus: int = 8,
        cpu: str = "128",
        memory: str = "1Ti",
        pods: int = 110,
        labels: Callable[[int], Mapping[str, str]] = lambda _index: {},
        taints: Sequence[Mapping[str, str]] = (),
        more: Mapping[str, str] | None = None,
    ) -> None:
        """Adds ready nodes, each with a lease. `labels` by index in `names`; `more`: further allocatable resources."""
        allocatable = {"cpu": cpu, "memory": memory, "pods": str(pods), "ephemeral-storage": "1Ti", **(more or {})}
        if gpus:
            allocatable["nvidia.com/gpu"] = str(gpus)
        devices = status.devices(allocatable)

        async def add(index: int, name: str) -> None:
            node = self.nodes[name] = FakeNode(name, next(self._addresses), devices)
            body = status.node(name, now(), node.address, allocatable, labels(index), taints)
            async with self._room:
                await self.api.post("/api/v1/nodes", body)
                # the node is ready, and a node controller removes the taint of new nodes
                await self.api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": list(taints) or None}})
                await self._renew(name)
            self._answer(node)

        await asyncio.gather(*(add(index, name) for index, name in enumerate(names)))

    async def remove_nodes(self, names: Sequence[str]) -> None:
        """Removes Node objects, leases and machines: their pods do not run any more."""

        async def remove(name: str) -> None:
            if node := self.nodes.pop(name, None):
                for pod in node.pods.values():
                    pod.forgotten = True
                    pod.gone.set()
            async with self._room:
                await _unless_gone(self.api.delete(f"/api/v1/nodes/{name}"))
                await _unless_gone(self.api.delete(f"{LEASES}/{name}"))

        await asyncio.gather(*(remove(name) for name in names))

    async def silence(self, name: str, *, noticed: bool = True) -> None:
        """Stops the node's answers; its containers run on. `noticed`: marked like by the controller-manager."""
        self.nodes[name].answers.clear()
        if noticed:
            await self._mark(name, "Unknown", [status.UNREACHABLE])

    async def revive(self, name: str) -> None:
        """Lets the node answer again, and carry out the requests of the meantime."""
        await self._renew(name)
        await self._mark(name, "True", [])
        self._answer(self.nodes[name])

    async def end(self, namespace: str, name: str, end: End | None = None) -> None:
        """Ends a pod's containers, once they run; by default with code 0."""
        pod = await self.running(namespace, name)
        if pod.requested_end is not None and not pod.requested_end.done():
            pod.requested_end.set_result(end or End())

    async def running(self, namespace: str, name: str, patience: float = 20.0) -> FakePod:
        """Waits until a pod's containers run. Raises TimeoutError after `patience` seconds."""
        async with asyncio.timeout(patience):
            while True:
                for pod in self.pods.values():
                    meta = pod.pod["metadata"]
                    if (
                        (meta["namespace"], meta["name"]) == (namespace, name)
                        and pod.alive
                        and pod.requested_end is not None
                        and not pod.requested_end.done()
                    ):
                        return pod
                await asyncio.sleep(0.01)

    def alive(self) -> Iterator[Pod]:
        """Yields pods whose containers run, also of silent nodes, and those that the API has deleted."""
        return (pod.pod for pod in self.pods.values() if pod.alive)

    def _answer(self, node: FakeNode) -> None:
        node.answers.set()
        for pod in list(node.pods.values()):
            self._update(pod)

    async def _follow(self) -> None:
        """Lists and watches, repeatedly: when the watch ends or the server is not reachable."""
        while True:
            try:
                listed = await self.api.get(PODS, **BOUND)
                self._relist(listed["items"])
                version = listed["metadata"]["resourceVersion"]
                while True:
                    async for event in self.api.watch(PODS, version, **BOUND):
                        version = event["object"]["metadata"]["resourceVersion"]
                        self._apply_event(event["type"], event["object"])
            except (ApiError, aiohttp.ClientError, OSError):
                await asyncio.sleep(AGAIN)

    def _relist(self, pods: Sequence[Pod]) -> None:
        for lost in self.pods.keys() - {pod["metadata"]["uid"] for pod in pods}:
            self._apply_event("DELETED", self.pods[lost].pod)
        for pod in pods:
            self._apply_event("MODIFIED", pod)

    def _apply_event(self, kind: str, pod: Pod) -> None:
        if kind == "BOOKMARK" or pod["spec"]["nodeName"] not in self.nodes:
            return
        uid = pod["metadata"]["uid"]
        known = self.pods.get(uid)
        if known is None:
            if kind == "DELETED" or pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
                return
            node = self.nodes[pod["spec"]["nodeName"]]
            known = FakePod(pod, self._script(pod), node.address, next(self._addresses), status.wanted_devices(pod))
            self.pods[uid] = node.pods[uid] = known
        known.pod = pod
        known.forgotten = kind == "DELETED"
        self._update(known)

    def _script(self, pod: Pod) -> Script:
        for container in pod["spec"]["containers"]:
            if container["image"] in self.broken_images:
                return Script(image_error=f"{container['image']}: not found")
        return self.script_of(pod)

    def _update(self, pod: FakePod) -> None:
        """Carries out what the pod's object requests, if its node answers."""
        node = self.nodes[pod.pod["spec"]["nodeName"]]
        if not node.answers.is_set():
            return
        if pod.task is None:
            if pod.forgotten:  # bound and deleted while the node was silent
                self._forget(pod)
                return
            refusal = node.refusal(pod)
            pod.task = asyncio.create_task(self._refuse(pod, *refusal) if refusal else self._run_pod(pod))
        if pod.forgotten or "deletionTimestamp" in pod.pod["metadata"]:
            pod.gone.set()

    async def _run_pod(self, pod: FakePod) -> None:
        await run_pod(pod, self.start, self._write, self._remove)
        self._forget(pod)

    async def _refuse(self, pod: FakePod, reason: str, message: str) -> None:
        pod.has_ended = True
        self.refused.append(pod.pod)
        await self._write(pod, status.refused(pod.pod, now(), reason, message))
        await pod.gone.wait()
        if not pod.forgotten:
            await self._remove(pod)
        self._forget(pod)

    def _forget(self, pod: FakePod) -> None:
        uid = pod.pod["metadata"]["uid"]
        self.pods.pop(uid, None)
        if node := self.nodes.get(pod.pod["spec"]["nodeName"]):
            node.pods.pop(uid, None)

    async def _write(self, pod: FakePod, patch: Patch) -> bool:
        path = _path(pod.pod)
        answer = await self._repeat(pod, lambda: self.api.patch(f"{path}/status", patch, "strategic"))
        self.started += answer is not None and patch["status"]["phase"] == "Running"
        return answer is not None

    async def _remove(self, pod: FakePod) -> None:
        only = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.pod["metadata"]["uid"]}}
        await self._repeat(pod, lambda: self.api.delete(_path(pod.pod), only))

    async def _repeat(self, pod: FakePod, request: Callable[[], Any]) -> object:
        """Repeats a request until the server answers, while the node answers; None if the pod was replaced."""
        while not pod.forgotten and (node := self.nodes.get(pod.pod["spec"]["nodeName"])):
            await node.answers.wait()
            try:
                async with self._room:
                    return await request()
            except ApiError as failed:
                if failed.status in (404, 409):
                    return None
                if failed.status not in (429, 500, 503, 504):
                    raise
            except (aiohttp.ClientError, OSError):
                pass
            await asyncio.sleep(AGAIN)
        return None

    async def _mark(self, name: str, ready: str, taints: Sequence[str]) -> None:
        """Marks a node like the node lifecycle controller."""
        conditions = {"status": {"conditions": [status.readiness(ready, now())]}}
        await self.api.patch(f"/api/v1/nodes/{name}/status", conditions, "strategic")
        spec = (await self.api.get(f"/api/v1/nodes/{name}"))["spec"]
        others = [taint for taint in spec.get("taints", ()) if taint["key"] != status.UNREACHABLE]
        marks = [{"key": key, "effect": effect} for key in taints for effect in ("NoSchedule", "NoExecute")]
        await self.api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": others + marks}})

    async def _renew_leases(self) -> None:
        """Renews each node's lease once per heartbeat, spread over its length."""
        while self.heartbeat:
            names = [name for name, node in self.nodes.items() if node.answers.is_set()]
            pause = self.heartbeat / max(len(names), 1)
            for name in random.sample(names, len(names)):
                await asyncio.sleep(pause)
                if name in self.nodes and self.nodes[name].answers.is_set():
                    try:
                        await self._renew(name)
                    except (ApiError, aiohttp.ClientError, OSError):
                        await asyncio.sleep(AGAIN)
            if not names:
                await asyncio.sleep(AGAIN)

    async def _renew(self, name: str) -> None:
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": self.lease,
            "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec}
        try:
            await self.api.patch(f"{LEASES}/{name}", {"spec": spec})
        except ApiError as failed:
            if failed.status != 404:
                raise
            await self.api.post(LEASES, body)


def _path(pod: Pod) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


async def _unless_gone(request: Any) -> None:
    try:
        await request
    except ApiError as failed:
        if failed.status != 404:
            raise


def names(count: int, prefix: str = "node-") -> list[str]:
    """Returns `count` names: node-00000, node-00001 and so on."""
    return [f"{prefix}{index:05}" for index in itertools.islice(itertools.count(), count)]
