"""A leading operator with its endpoints, on a real API server with fake kubelets. Jobs are TrainingJobs."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
from backend_host import Behaviour
from kubernetes_host import JOBS, NAMESPACE, cancel_task, create_definitions, namespaced, script_of
from operator_account import operator_access
from planes.tidy import clear

import strays
from windlass import wire
from windlass.backends.kubernetes.agents import agent_server
from windlass.backends.kubernetes.backend import KubernetesBackend
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.resources import path
from windlass.backends.kubernetes.served_kinds import JOB_KINDS, served_kinds
from windlass.backends.kubernetes.settings import AgentSettings, BackendSettings
from windlass.backends.kubernetes.watches import watch_all
from windlass.controller.controller import Controller, run
from windlass.controlplane.api import Api, ApiError
from windlass.controlplane.cluster import ControlPlane
from windlass.controlplane.fake_kubelet import FakeKubelets
from windlass.controlplane.fake_pod import Script
from windlass.controlplane.fake_status import Pod
from windlass.core.model.job import Job, Role
from windlass.jobs.kubernetes.manifests.trainingjob_manifest import training_job
from windlass.jobs.kubernetes.settings import Settings
from windlass.server.operator.endpoints import Endpoints, EndpointSettings, listen
from windlass.server.operator.history.store import JobHistory
from windlass.server.operator.metrics import OperatorMetrics
from windlass.server.operator.pending_reasons import write_reasons
from windlass.server.operator.serving_certificate import make_certificate, server_context

SETTINGS = EndpointSettings(open_queries=True)
PYTORCHJOBS = "/apis/kubeflow.org/v1/pytorchjobs"


@dataclass
class OperatorPlace:
    """`get` requests from the operator, `api` from the API server."""

    api: Api
    kubelets: FakeKubelets
    endpoints: Endpoints
    world: KubernetesBackend
    session: aiohttp.ClientSession
    port: int
    agents: int
    """Port for agents."""
    authority: ssl.SSLContext
    """Context that accepts the certificate of that port."""
    troubles: list[str] = field(default_factory=list)
    successor: Callable[[], Awaitable[OperatorPlace]] | None = None
    """Stops this operator and starts another one, which leads from then on."""

    async def submit(self, name: str, behaviour: Behaviour = Behaviour.RUN, gpus: int = 1, replicas: int = 1) -> None:
        role = Role(replicas=replicas, resources={"gpu": gpus}, command=(behaviour.value,), image="example.com/job:1")
        manifest = training_job(Job(name, (role,), workdir="", user="ada"), name, NAMESPACE)
        await self.api.post(namespaced(JOBS), manifest)

    async def delete(self, name: str) -> None:
        await self.api.delete(f"{namespaced(JOBS)}/{name}")

    async def ask(self, path: str, method: str = "GET", body: object = None) -> tuple[int, Any]:
        async with self.session.request(method, path, json=body) as answer:
            is_json = answer.content_type == "application/json"
            return answer.status, (await answer.json() if is_json else await answer.text())

    async def get(self, path: str) -> Any:
        status, found = await self.ask(path)
        assert status == 200, found
        return found

    async def until(self, path: str, holds: Callable[[Any], object]) -> Any:
        """The answer, once the condition holds."""
        found = None
        try:
            async with asyncio.timeout(strays.TIMEOUT_S):
                while True:
                    status, found = await self.ask(path)
                    if status == 200 and holds(found):
                        return found
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"{path} still says {found}") from None

    async def phase(self, name: str, phase: str) -> Any:
        """Details of a job, once its state is this and its history has the transition to it, which follows later."""

        def is_recorded(job: Any) -> bool:
            return [job["phase"], *(step["after"] for step in job["transitions"][-1:])] == [phase, phase]

        return await self.until(f"/v1/jobs/{name}", is_recorded)


@asynccontextmanager
async def leading(
    plane: ControlPlane,
    folder: Path,
    *,
    gpus: int = 2,
    script_of: Callable[[Pod], Script] = script_of,
    prepare: Callable[[Api, FakeKubelets], Awaitable[None]] | None = None,
    after: Callable[[Api, FakeKubelets], Awaitable[None]] | None = None,
    paths: Sequence[str] = (JOBS, PYTORCHJOBS),
    reasons: bool = False,
    settings: EndpointSettings = SETTINGS,
    image_pull_timeout: int = 0,
    history_url: str = "",
) -> AsyncIterator[OperatorPlace]:
    """An operator on two nodes of two devices each, with its history in a file of this folder.

    `prepare` is called before the operator starts, `after` when it has stopped after a body that raised nothing.
    `paths`: of the objects that are removed at the end beside nodes, pods and services; after an error all jobs are.
    `reasons`: jobs say why they wait, or lack replicas. `settings`: of the operator's endpoints.
    `image_pull_timeout`: time in ms for which pods wait for an image. `history_url`: of another database of history.
    """
    troubles: list[str] = []
    metrics = OperatorMetrics()
    access = operator_access(plane)
    async with (
        plane.api() as api,
        FakeKubelets(plane.admin, script_of=script_of, network=127) as kubelets,
        _cleared(api, *paths, "/api/v1/services"),
        Connection(access, counters=metrics.tally) as connection,
        JobHistory(history_url or f"sqlite://{folder}/history.db", _now, troubles.append) as history,
    ):
        await create_definitions(api)
        await kubelets.add_nodes(["n1", "n2"], gpus=gpus)
        if prepare is not None:
            await prepare(api, kubelets)
        async with AsyncExitStack() as operators:

            async def lead() -> OperatorPlace:
                await operators.aclose()
                endpoints = Endpoints(metrics, history, settings)
                begun = _operator(api, kubelets, connection, endpoints, troubles, reasons, image_pull_timeout)
                place = await operators.enter_async_context(begun)
                place.successor = lead
                return place

            yield await lead()
        if after is not None:
            await after(api, kubelets)


@asynccontextmanager
async def _operator(
    api: Api,
    kubelets: FakeKubelets,
    connection: Connection,
    endpoints: Endpoints,
    troubles: list[str],
    reasons: bool,
    image_pull_timeout: int,
) -> AsyncIterator[OperatorPlace]:
    """A leader, from the first list of its watches to the end of its term."""
    calls = listen("127.0.0.1", 0)
    agents = calls.getsockname()[1]
    certificate, key = make_certificate([wire.CONTROLLER_NAME], datetime.now(UTC))
    kinds = Settings(agent_endpoint=f"127.0.0.1:{agents}", agent_authority=certificate.decode())
    backend = BackendSettings(kinds, AgentSettings(key), image_pull_timeout=image_pull_timeout)
    world = KubernetesBackend(connection, _now, backend, troubles.append)
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    tasks = [asyncio.create_task(endpoints.serve(listener))]
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        known = asyncio.Event()
        tasks.append(asyncio.create_task(watch_all(world, await served_kinds(connection), known.set)))
        try:
            await asyncio.wait_for(known.wait(), strays.TIMEOUT_S)
            recovery = world.recover()
            controller = Controller(recovery, world.finished, refuses=False)
            observers = endpoints.lead(controller, world, recovery.states)
            endpoints.unready = ""
            tasks.append(asyncio.create_task(run(controller, world, observers, on_trouble=endpoints.complain)))
            if reasons:
                tasks.append(asyncio.create_task(write_reasons(controller, world)))
            tasks.append(asyncio.create_task(agent_server.serve(calls, world.agents, server_context(certificate, key))))
            authority = ssl.create_default_context(cadata=certificate.decode())
            yield OperatorPlace(api, kubelets, endpoints, world, session, port, agents, authority, troubles)
        finally:
            await endpoints.follow()
            for task in reversed(tasks):
                await cancel_task(task)
            await world.close()


@asynccontextmanager
async def _cleared(api: Api, *paths: str) -> AsyncIterator[None]:
    """Removes the nodes, the pods and the objects of these paths at the end; after an error the jobs of every kind."""
    try:
        yield
    except BaseException:
        await clear(api, *(path(kind) for kind in JOB_KINDS), *paths)
        raise
    await clear(api, *paths)


async def created(api: Api, path: str, body: object) -> bool:
    """Creates an object, unless an earlier test has left it. Returns whether it is new."""
    try:
        await api.post(path, body)
    except ApiError as error:
        if error.status != 409:
            raise
        return False
    return True


def _now() -> int:
    return time.time_ns() // 1_000_000
