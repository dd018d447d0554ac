"""An API server in memory with one job and its pods, kubelets that run them, and leaders whose writes a test breaks."""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from types import SimpleNamespace
from typing import Any

from recorded_api import put_namespace

from windlass.backends.kubernetes.backend import KubernetesBackend
from windlass.backends.kubernetes.client import objects
from windlass.backends.kubernetes.client.api_errors import ApiError, Unreachable
from windlass.backends.kubernetes.client.object_cache import ObjectRevision
from windlass.backends.kubernetes.client.resources import PODS, Resource, named
from windlass.backends.kubernetes.settings import BackendSettings
from windlass.controller.controller import Controller, run
from windlass.jobs.kubernetes.labels import GENERATION

Manifest = dict[str, Any]
NOON = 1_767_268_800_000
LATENCY_S, NO_ANSWER_S, LATE_S = 0.01, 3.0, 2.5
"""Seconds that a message takes; until a client gives up; until a write arrives that its dead leader has sent."""
ELECTION_S = 1.0
"""Seconds from the death of a leader until the next one reads the objects."""
NODES = ("n1", "n2")
ENDS = ("Succeeded", "Failed")


GPUS = {"limits": {"nvidia.com/gpu": "2"}}
REPLICA = {
    "replicas": 1,
    "restartPolicy": "OnFailure",
    "template": {"spec": {"containers": [{"name": "pytorch", "image": "x", "resources": GPUS}]}},
}
TRAINING_JOB = {
    "apiVersion": "windlass.dev/v1alpha1",
    "kind": "TrainingJob",
    "metadata": {"name": "digits"},
    "spec": {"nodes": 2, "gpus": 2, "procs": 1, "image": "x", "command": ["work"]},
}
PYTORCH_JOB = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"name": "digits"},
    "spec": {"pytorchReplicaSpecs": {"Master": REPLICA, "Worker": REPLICA}},
}
"""Its pods restart one by one, and its master's success is the job's."""
JOBS = {"TrainingJob": TRAINING_JOB, "PyTorchJob": PYTORCH_JOB}


class Fault(Enum):
    """The fate of one write."""

    KILLED_BEFORE = "the leader is killed before the write arrives"
    KILLED_AFTER = "the leader is killed before it has the answer"
    KILLED_LATE = "the leader is killed, and the write arrives when the next one leads"
    LOST = "the write does not arrive"
    UNANSWERED = "the write is carried out without an answer"


KILLS = (Fault.KILLED_BEFORE, Fault.KILLED_AFTER, Fault.KILLED_LATE)


class MemoryApi:
    """The objects, and kubelets that run each bound pod for `work` seconds.

    The nodes exist after `nodes_after` seconds. `watchers` receive each change.
    """

    def __init__(self, job: Manifest, work: Callable[[str], float], nodes_after: float = 0) -> None:
        self.version, self.work, self.nodes_after = itertools.count(100), work, nodes_after
        about = {"namespace": "ml", "uid": "u", "generation": 1, **job["metadata"], **self._next_version()}
        self.job: Manifest = {**job, "metadata": about}
        self.pods: dict[str, Manifest] = {}
        self.watchers: list[Callable[[str, Manifest], None]] = []
        self.latency: Callable[[], float] = lambda: LATENCY_S
        """Seconds from a request to its effect, and from there to the answer."""
        self.doubles: list[str] = []
        """Moments at which pods of two generations ran."""
        self.writes: list[str] = []
        self.uids: list[str] = []
        """Uids of all pods that were created."""
        self.ended = asyncio.Event()
        """Set when the job has ended."""

    @property
    def kind(self) -> Resource:
        return named(self.job["apiVersion"], "jobs", self.job["kind"])

    @property
    def phase(self) -> str:
        return str(self.job.get("status", {}).get("windlass", {}).get("phase", ""))

    def patch_status(self, body: Manifest) -> Manifest:
        if body["metadata"]["resourceVersion"] != self.job["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", "the object has been modified")
        status = _merge(self.job.get("status") or {}, body["status"])
        self.job = {**self.job, "metadata": {**self.job["metadata"], **self._next_version()}, "status": status}
        self._send("job", self.job)
        if self.phase in ENDS:
            self.ended.set()
        return copy.deepcopy(self.job)

    def scale(self, role: str, replicas: int) -> None:
        """Changes the number of replicas in the spec of a PyTorchJob, as its owner does."""
        spec = json.loads(json.dumps(self.job["spec"]))
        spec["pytorchReplicaSpecs"][role]["replicas"] = replicas
        self.change_spec(spec)

    def change_spec(self, spec: Manifest) -> None:
        """Replaces the spec of the job, as its owner does."""
        about = {**self.job["metadata"], **self._next_version(), "generation": self.job["metadata"]["generation"] + 1}
        self.job = {**self.job, "metadata": about, "spec": spec}
        self._send("job", self.job)

    def create_pod(self, body: Manifest) -> Manifest:
        name = body["metadata"]["name"]
        if name in self.pods:
            raise ApiError(409, "AlreadyExists", f"{name} exists")
        version = self._next_version()
        about = {**body["metadata"], **version, "uid": f"{name}-{version['resourceVersion']}"}
        self.uids.append(about["uid"])
        self._store({**body, "metadata": about, "status": {"phase": "Pending"}})
        if body["spec"].get("nodeName"):
            self._later(LATENCY_S, about["uid"], self._run)
        return self.pods[name]

    def bind_pod(self, name: str, uid: str, node: str) -> None:
        pod = self._find(name, uid)
        if pod["spec"].get("nodeName") == node:
            return  # as `Connection.bind` takes the conflict
        if pod["spec"].get("nodeName") or pod["metadata"].get("deletionTimestamp"):
            raise ApiError(409, "Conflict", f"{name} is bound or being deleted")
        self._change(pod, spec={**pod["spec"], "nodeName": node})
        self._later(LATENCY_S, uid, self._run)

    def delete_pod(self, name: str, uid: str, grace: int) -> None:
        pod = self._find(name, uid)
        if not pod["spec"].get("nodeName") or grace == 0 or pod["status"]["phase"] in ENDS:
            self._remove(pod)
        elif not pod["metadata"].get("deletionTimestamp"):
            mark = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": grace}
            self._change(pod, metadata={**pod["metadata"], **mark})
            self._later(LATENCY_S, uid, self._remove)

    def _find(self, name: str, uid: str | None = None) -> Manifest:
        pod = self.pods.get(name)
        if pod is None:
            raise ApiError(404, "NotFound", f"{name} is gone")
        if uid is not None and pod["metadata"]["uid"] != uid:
            raise ApiError(409, "Conflict", f"{name} is another pod")
        return pod

    def _run(self, pod: Manifest) -> None:
        self._change(pod, status={"phase": "Running"})
        running = {each["metadata"]["labels"][GENERATION] for each in self.pods.values() if _runs(each)}
        self.doubles += [f"generations {sorted(running)}"] if len(running) > 1 else []
        self._later(self.work(pod["metadata"]["name"]), pod["metadata"]["uid"], self._succeed)

    def _succeed(self, pod: Manifest) -> None:
        end = {"name": "main", "state": {"terminated": {"exitCode": 0}}}
        self._change(pod, status={"phase": "Succeeded", "containerStatuses": [end]})

    def _later(self, seconds: float, uid: str, act: Callable[[Manifest], None]) -> None:
        def run() -> None:
            for pod in [each for each in self.pods.values() if each["metadata"]["uid"] == uid]:
                act(pod)

        asyncio.get_running_loop().call_later(seconds, run)

    def _change(self, pod: Manifest, **changes: Any) -> None:
        changed = {**pod, **changes}
        self._store({**changed, "metadata": {**changed["metadata"], **self._next_version()}})

    def _store(self, pod: Manifest) -> None:
        self.pods[pod["metadata"]["name"]] = pod
        self._send("pod", pod)

    def _remove(self, pod: Manifest) -> None:
        del self.pods[pod["metadata"]["name"]]
        self._send("deleted", {**pod, "metadata": {**pod["metadata"], **self._next_version()}})

    def _send(self, kind: str, changed: Manifest) -> None:
        for watcher in self.watchers:
            watcher(kind, changed)

    def _next_version(self) -> dict[str, str]:
        return {"resourceVersion": str(next(self.version))}


class FaultyConnection:
    """The connection of one leader. `faults`: the fate of its writes of the job and its pods, by number from 0."""

    def __init__(self, api: MemoryApi, faults: Mapping[int, Fault]) -> None:
        self.api, self.faults = api, faults
        self.count = 0
        self.killed = asyncio.Event()
        self.counters = SimpleNamespace(bindings=SimpleNamespace(observe=lambda _seconds: None))

    async def request(self, method: str, _path: str, *, body: Any = None, **_: Any) -> bytes:
        if method == "GET":
            return await self._read(lambda: b"{}")
        made = await self._write(f"create {body['metadata']['name']}", lambda: self.api.create_pod(body))
        return json.dumps(made).encode()

    async def bind(self, _namespace: str, name: str, uid: str, node: str, **_: Any) -> None:
        await self._write(f"bind {name}", lambda: self.api.bind_pod(name, uid, node))

    async def patch(self, resource: Resource, _namespace: str, name: str, body: Any, **_: Any) -> Any:
        if resource.kind != self.api.kind.kind:
            return await self._read(lambda: {"metadata": {"name": name}})
        return await self._write("patch", lambda: self.api.patch_status(body))

    async def delete(self, resource: Resource, _namespace: str, name: str, *, uid: str = "", **more: Any) -> None:
        if resource == PODS:
            grace = more.get("grace") or 0
            await self._write(f"delete {name}", lambda: self.api.delete_pod(name, uid, grace))

    async def create(self, _resource: object, body: Manifest, **_: Any) -> Manifest:
        return await self._read(lambda: {**body, "metadata": {**body["metadata"], "uid": "made"}})

    async def get(self, resource: Resource, _namespace: str, name: str, **_: Any) -> Any:
        if resource == PODS:
            return await self._read(lambda: self.api._find(name))
        return await self._read(lambda: copy.deepcopy(self.api.job))

    async def _read(self, effect: Callable[[], Any]) -> Any:
        await self._transfer()
        found = effect()
        await self._transfer()
        return found

    async def _write(self, name: str, effect: Callable[[], Any]) -> Any:
        fault = self.faults.get(self.count)
        self.count += 1
        self.api.writes.append(name)
        await self._transfer()
        if fault in (Fault.KILLED_BEFORE, Fault.KILLED_LATE):
            if fault is Fault.KILLED_LATE:
                asyncio.get_running_loop().call_later(LATE_S, lambda: _ignore_refusal(effect))
            self.killed.set()
            await asyncio.Event().wait()
        if fault is not Fault.LOST:
            done = effect()
        if fault is Fault.KILLED_AFTER:
            self.killed.set()
            await asyncio.Event().wait()
        if fault is not None:
            await asyncio.sleep(NO_ANSWER_S)
            raise Unreachable("no answer")
        await self._transfer()
        return done

    async def _transfer(self) -> None:
        if self.killed.is_set():
            await asyncio.Event().wait()
        await asyncio.sleep(self.api.latency())


class Leader:
    """One leadership term. `run` returns when the leader is killed, or when the job has ended."""

    def __init__(self, api: MemoryApi, faults: Mapping[int, Fault]) -> None:
        self.api = api
        self.connection = FaultyConnection(api, faults)
        self.messages: list[str] = []

    async def run(self) -> None:
        settings = BackendSettings(cluster_settling=0)
        backend = KubernetesBackend(self.connection, _now, settings, self.messages.append)  # type: ignore[arg-type]
        add_nodes = partial(self._add_nodes, backend)
        if (wait := self.api.nodes_after - asyncio.get_running_loop().time()) > 0:
            asyncio.get_running_loop().call_later(wait, add_nodes)
        else:
            add_nodes()
        put_namespace(backend)
        self._see(backend, "job", self.api.job)
        for pod in self.api.pods.values():
            self._see(backend, "pod", pod)

        delay = self.api.latency()

        def watch(kind: str, changed: Manifest) -> None:
            asyncio.get_running_loop().call_later(delay, self._see, backend, kind, changed)

        self.api.watchers.append(watch)
        tasks = [asyncio.ensure_future(each) for each in (self._lead(backend), self.connection.killed.wait())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.api.watchers.remove(watch)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await backend.close()
        for task in done:
            task.result()

    async def _lead(self, backend: KubernetesBackend) -> None:
        controller = Controller(backend.recover(), backend.finished, refuses=False)
        await run(controller, backend, on_trouble=self.messages.append)

    def _add_nodes(self, backend: KubernetesBackend) -> None:
        for number, name in enumerate(NODES):
            backend.cluster.see_node(objects.node(_node(name, number)))
        backend.monitor.check()

    def _see(self, backend: KubernetesBackend, kind: str, changed: Manifest) -> None:
        if self.connection.killed.is_set():
            return
        if kind == "job":
            backend.job_reader.update(self.api.kind, copy.deepcopy(changed))
            return
        pod = objects.pod(json.dumps(changed).encode())
        if kind == "pod":
            backend.pods.apply(backend.pods.fresh.put(pod))
            return
        about = pod.metadata
        of = ObjectRevision(about.namespace, about.name, about.uid, int(about.resource_version))
        backend.pods.apply(backend.pods.fresh.remove(of))


def _now() -> int:
    return NOON + round(asyncio.get_running_loop().time() * 1000)


def _node(name: str, number: int) -> bytes:
    allocatable = {"nvidia.com/gpu": "2", "cpu": "64", "memory": "256Gi", "pods": "110"}
    status = {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]}
    about = {"name": name, "uid": name, "resourceVersion": str(number + 1)}
    return json.dumps({"metadata": about, "spec": {}, "status": status}).encode()


def _runs(pod: Manifest) -> bool:
    return bool(pod["status"]["phase"] == "Running")


def _ignore_refusal(effect: Callable[[], Any]) -> None:
    try:
        effect()
    except ApiError:
        return


def _merge(before: Any, patch: Any) -> Any:
    """Applies a JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    kept = dict(before) if isinstance(before, dict) else {}
    for name, value in patch.items():
        if value is None:
            kept.pop(name, None)
        else:
            kept[name] = _merge(kept.get(name), value)
    return kept
