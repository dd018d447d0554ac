"""A scheduler on a real API server with fake nodes, which can be killed and started again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Self, TypeVar

from operator_account import operator_access
from planes.tidy import clear

import strays
from windlass.backends.kubernetes.backend import KubernetesBackend
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.served_kinds import served_kinds
from windlass.backends.kubernetes.settings import BackendSettings
from windlass.backends.kubernetes.watches import watch_all
from windlass.controller.controller import Controller, run
from windlass.controlplane.api import Api, ApiError
from windlass.controlplane.cluster import ControlPlane
from windlass.controlplane.fake_kubelet import FakeKubelets

from .other_kinds import COSCHEDULING_GROUPS, JOB_SETS, JOBS, NATIVE_GROUPS, PODS, VOLCANO_GROUPS

T = TypeVar("T")
LISTS = (JOBS, JOB_SETS, COSCHEDULING_GROUPS, VOLCANO_GROUPS, NATIVE_GROUPS)


class Scheduler:
    """One replica: watches, world and controller. `close` leaves the cluster as it is at that instant."""

    def __init__(self, plane: ControlPlane, url: str | None = None, **settings: Any) -> None:
        self.settings = BackendSettings(**settings)
        self.access = operator_access(plane, url)
        self.troubles: list[str] = []
        self._stack = AsyncExitStack()

    async def open(self) -> Self:
        connection = await self._stack.enter_async_context(Connection(self.access))
        self.world = KubernetesBackend(
            connection, lambda: time.time_ns() // 1_000_000, self.settings, self.troubles.append
        )
        ready = asyncio.Event()
        watching = asyncio.create_task(watch_all(self.world, await served_kinds(connection), ready.set))
        self._stack.push_async_callback(ended, watching)
        self._stack.push_async_callback(self.world.close)
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait([watching, waiting], return_when="FIRST_COMPLETED")
        assert waiting.done(), watching.exception()
        self.controller = Controller(self.world.recover(), self.world.finished)
        self.running = asyncio.create_task(run(self.controller, self.world, on_trouble=self.troubles.append))
        self._stack.push_async_callback(ended, self.running)
        return self

    async def close(self) -> None:
        await self._stack.aclose()


async def ended(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


class Rig:
    """The cluster of a test: objects, fake nodes and schedulers."""

    def __init__(self, plane: ControlPlane, api: Api, nodes: FakeKubelets) -> None:
        self.plane, self.api, self.nodes = plane, api, nodes
        self.schedulers: list[Scheduler] = []

    async def scheduler(self, url: str | None = None, **settings: Any) -> Scheduler:
        opened = await Scheduler(self.plane, url, **settings).open()
        self.schedulers.append(opened)
        return opened

    async def close(self, scheduler: Scheduler) -> None:
        self.schedulers.remove(scheduler)
        await scheduler.close()

    async def make(self, *pods: Mapping[str, Any]) -> None:
        await asyncio.gather(*(self.api.post(PODS, each) for each in pods))

    async def pods(self) -> dict[str, dict[str, Any]]:
        """By name."""
        return {each["metadata"]["name"]: each for each in (await self.api.get(PODS))["items"]}

    async def places(self) -> dict[str, str]:
        """Nodes of the bound pods, by pod name."""
        return {name: on for name, pod in (await self.pods()).items() if (on := pod["spec"].get("nodeName"))}

    async def until(self, found: Callable[[], Awaitable[T | None]], within: float = strays.TIMEOUT_S) -> T:
        """Waits until the condition holds; the scheduler must be alive meanwhile."""
        deadline = time.monotonic() + within
        while not (answer := await found()):
            for scheduler in self.schedulers:
                if scheduler.running.done():
                    scheduler.running.result()
            assert time.monotonic() < deadline, await self.describe()
            await asyncio.sleep(0.1)
        return answer

    async def until_placed(self, *names: str) -> dict[str, str]:
        async def placed() -> dict[str, str] | None:
            places = await self.places()
            return places if places.keys() >= set(names) else None

        return await self.until(placed)

    async def until_running(self, count: int, within: float = strays.TIMEOUT_S) -> list[str]:
        async def running() -> list[str] | None:
            names = [name for name, pod in (await self.pods()).items() if pod["status"]["phase"] == "Running"]
            return names if len(names) == count else None

        return await self.until(running, within)

    async def until_forgotten(self, scheduler: Scheduler) -> None:
        """Waits until the controller holds no gang."""

        async def nothing() -> bool:
            return not scheduler.controller.states

        await self.until(nothing)

    async def why(self, name: str) -> str:
        """The pending reason in the conditions of a pod, once it is there."""

        async def condition_message() -> str | None:
            self.give_reasons()
            conditions = (await self.pods())[name]["status"].get("conditions", [])
            return next((each["message"] for each in conditions if each.get("reason") == "Unschedulable"), None)

        return await self.until(condition_message)

    def give_reasons(self) -> None:
        """Passes the scheduler's verdicts on, as the operator does regularly."""
        for scheduler in self.schedulers:
            for job_id, verdict in scheduler.controller.plan.verdicts.items():
                scheduler.world.external.say(job_id, verdict.message)

    async def describe(self) -> str:
        """The state for the message of a failed wait."""
        states = {
            job_id: (state.status.phase.value, state.status.reason, state.status.message)
            for scheduler in self.schedulers
            for job_id, state in scheduler.controller.states.items()
        }
        troubles = [trouble for scheduler in self.schedulers for trouble in scheduler.troubles]
        return f"pods {await self.places()} of {list(await self.pods())}, gangs {states}, troubles {troubles}"


@asynccontextmanager
async def rig(plane: ControlPlane, nodes: int = 2, gpus: int = 4) -> AsyncIterator[Rig]:
    async with plane.api() as api, FakeKubelets(plane.admin) as kubelets:
        await kubelets.add_nodes([f"n{index + 1}" for index in range(nodes)], gpus=gpus)
        made = Rig(plane, api, kubelets)
        try:
            yield made
        finally:
            for scheduler in list(made.schedulers):
                await made.close(scheduler)
            await clear(api, *LISTS)
            await until_empty(api)


async def until_empty(api: Api) -> None:
    """Repeats the removal: the Job controller may have created further pods."""
    async with asyncio.timeout(strays.TIMEOUT_S):
        while (await api.get(PODS))["items"]:
            try:
                await clear(api)
            except ApiError as failed:
                if failed.status != 409:
                    raise
            await asyncio.sleep(0.1)
