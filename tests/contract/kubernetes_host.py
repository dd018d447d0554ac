"""A real API server with two fake kubelets: jobs are TrainingJobs, their commands choose the simulated program."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, TypeVar

from backend_host import Behaviour
from operator_account import operator_access
from planes.background import Background
from planes.tidy import clear

import strays
from windlass.backends.kubernetes.backend import KubernetesBackend
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.cluster.cluster_state import QUEUES
from windlass.backends.kubernetes.served_kinds import JOB_KINDS
from windlass.backends.kubernetes.settings import BackendSettings
from windlass.backends.kubernetes.watches import watch_all
from windlass.backends.port import Backend
from windlass.controlplane.api import Api, ApiError
from windlass.controlplane.cluster import ControlPlane
from windlass.controlplane.fake_kubelet import FakeKubelets
from windlass.controlplane.fake_pod import Script
from windlass.core.model.job import Job, Role
from windlass.deploy.crds import crds
from windlass.jobs.kubernetes.manifests.trainingjob_manifest import training_job

T = TypeVar("T")
JOBS = "/apis/windlass.dev/v1alpha1/trainingjobs"
NAMESPACE = "default"
PROGRAMS = {
    Behaviour.SUCCEED: Script(work=0),
    Behaviour.FAIL: Script(work=0, code=3),
    Behaviour.RUN: Script(),
    Behaviour.STUBBORN: Script(obeys=False),
    Behaviour.UNSTARTABLE: Script(image_error="/no/such/program"),
}


def script_of(pod: dict[str, Any]) -> Script:
    """Returns the script of a pod by its command; an agent runs until it is ended."""
    first = pod["spec"]["containers"][0]["command"][0]
    return PROGRAMS[Behaviour.RUN if first == "python" else Behaviour(first)]


class KubernetesHost:
    """A cluster, under any number of controllers."""

    nodes = ("n1", "n2")

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.access = operator_access(plane)
        self.background = Background().__enter__()
        self.api = self.background.enter(plane.api())
        self.background.do(create_definitions(self.api))
        self.kubelets = self.background.enter(FakeKubelets(plane.admin, script_of=script_of))
        self.background.do(self.kubelets.add_nodes(self.nodes, gpus=2))
        self.opened: dict[Backend, AsyncExitStack] = {}

    async def open(self) -> KubernetesBackend:
        stack = AsyncExitStack()
        connection = await stack.enter_async_context(Connection(self.access))
        settings = BackendSettings(image_pull_timeout=0)
        backend = KubernetesBackend(connection, lambda: time.time_ns() // 1_000_000, settings)
        ready = asyncio.Event()
        watching = asyncio.create_task(watch_all(backend, [*JOB_KINDS, QUEUES], ready.set))
        stack.push_async_callback(cancel_task, watching)
        stack.push_async_callback(backend.close)
        await asyncio.wait([watching, waiting := asyncio.create_task(ready.wait())], return_when="FIRST_COMPLETED")
        assert waiting.done(), watching.exception()
        self.opened[backend] = stack
        return backend

    async def abandon(self, backend: Backend) -> None:
        await self.opened.pop(backend).aclose()

    def job(self, behaviour: Behaviour, replicas: int = 1) -> Job:
        role = Role(replicas=replicas, resources={"gpu": 1}, command=(behaviour.value,), image="example.com/job:1")
        return Job("job", (role,), workdir="")

    async def register(self, backend: Backend, job: Job, number: int) -> tuple[str, Job]:
        assert isinstance(backend, KubernetesBackend)
        name = f"job-{number}"
        manifest = training_job(replace(job, name=name), name, NAMESPACE)
        await asyncio.to_thread(self.background.do, self.api.post(f"{namespaced(JOBS)}", manifest))
        arrived = await until(lambda: backend.jobs.get(f"{NAMESPACE}/{name}"))
        return arrived.id, arrived.job

    async def end_scenario(self) -> None:
        for stack in self.opened.values():
            await stack.aclose()
        self.opened.clear()

    def close(self) -> None:
        try:
            self.background.do(clear(self.api, JOBS, "/api/v1/services"))
        finally:
            self.background.__exit__(None, None, None)


async def cancel_task(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def namespaced(path: str) -> str:
    """Returns a list's path within the namespace."""
    root, _, plural = path.rpartition("/")
    return f"{root}/namespaces/{NAMESPACE}/{plural}"


async def create_definitions(api: Api) -> None:
    """Creates our custom resource definitions where they are missing, and waits until they are served."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for definition in await _unserved(api):
        try:
            await api.post(path, definition)
        except ApiError as error:
            if error.status != 409:
                raise
    async with asyncio.timeout(strays.TIMEOUT_S * 3):
        while await _unserved(api):  # noqa: ASYNC110 - polled
            await asyncio.sleep(0.05)


async def _unserved(api: Api) -> list[dict[str, Any]]:
    """The definitions whose kinds the API server does not serve. Asking is cheap, and a refused creation is not."""
    definitions = crds()
    served = {version: await _plurals(api, version) for version in {v for each in definitions for v in _versions(each)}}

    def is_served(definition: dict[str, Any]) -> bool:
        return all(definition["spec"]["names"]["plural"] in served[version] for version in _versions(definition))

    return [each for each in definitions if not is_served(each)]


def _versions(definition: dict[str, Any]) -> list[str]:
    spec = definition["spec"]
    return [f"{spec['group']}/{version['name']}" for version in spec["versions"]]


async def _plurals(api: Api, version: str) -> set[str]:
    try:
        return {each["name"] for each in (await api.get(f"/apis/{version}"))["resources"]}
    except ApiError as error:
        if error.status != 404:
            raise
        return set()


async def until(found: Callable[[], T | None]) -> T:
    """Waits until `found` returns a value."""
    async with asyncio.timeout(strays.TIMEOUT_S):
        while (answer := found()) is None:  # noqa: ASYNC110 - polled
            await asyncio.sleep(0.005)
    return answer
