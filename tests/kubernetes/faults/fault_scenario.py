"""The setting of one fault: a cluster of fake nodes, operators, and a witness that observes all of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
from operator_account import LEASE
from planes.tidy import clear

import strays
from windlass.controlplane.api import Api, ApiError
from windlass.controlplane.cluster import ControlPlane
from windlass.controlplane.fake_kubelet import FakeKubelets
from windlass.jobs.kubernetes.pods.pod_assembly import GENERATION

from . import jobs, violations
from .operator_processes import OperatorProcesses
from .replicas import Replicas
from .witness import Witness

T = TypeVar("T")
Operators = Replicas | OperatorProcesses
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
EVENTS = "/apis/events.k8s.io/v1/events"
TIMEOUT_S = 6 * strays.TIMEOUT_S
_DESCRIBED = 3
"""Number of jobs whose objects a failure shows."""
SERVER_AWAY = (ApiError, aiohttp.ClientError, OSError)
"""Errors of a request while the server is away."""


class FaultScenario:
    def __init__(self, plane: ControlPlane, api: Api, kubelets: FakeKubelets, witness: Witness, ops: Operators) -> None:
        self.plane, self.api, self.kubelets, self.witness, self.replicas = plane, api, kubelets, witness, ops
        self.patience = TIMEOUT_S
        """Seconds for which a request is repeated."""

    async def make(self, *manifests: jobs.Manifest) -> None:
        for each in manifests:
            await self.retry(lambda each=each: self._make(each))

    async def _make(self, manifest: jobs.Manifest) -> None:
        await self.make_at(jobs.path(manifest), manifest)

    async def make_at(self, path: str, manifest: jobs.Manifest) -> None:
        """Creates an object at this path, unless an earlier attempt has created it."""
        try:
            await self.api.post(path, manifest)
        except ApiError as failed:
            if failed.status != 409:
                raise

    async def retry(self, work: Callable[[], Awaitable[T]]) -> T:
        """Repeats a request until it succeeds, as a user would."""
        deadline = time.monotonic() + self.patience
        while True:
            try:
                return await work()
            except SERVER_AWAY as failed:
                if (isinstance(failed, ApiError) and failed.status in (400, 404, 422)) or time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.1)

    async def job(self, name: str, path: str = jobs.TRAININGJOBS) -> dict[str, Any]:
        root, _, plural = path.rpartition("/")
        return await self.api.get(f"{root}/namespaces/{jobs.NAMESPACE}/{plural}/{name}")

    async def phases(self) -> dict[str, str]:
        """Phases of all jobs of our kinds."""
        listed = [each for path in jobs.JOB_LISTS for each in (await self.api.get(path))["items"]]
        return {
            each["metadata"]["name"]: (each.get("status") or {}).get("windlass", {}).get("phase", "") for each in listed
        }

    async def until(self, condition: Callable[[], Awaitable[object]], what: str, timeout_s: float = TIMEOUT_S) -> None:
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                if await condition():
                    return
            except SERVER_AWAY:
                pass
            if time.monotonic() > deadline:
                raise AssertionError(f"not reached: {what}: {await self.describe()}")
            await asyncio.sleep(0.2)

    async def until_phase(self, phase: str, *names: str) -> None:
        async def condition() -> bool:
            phases = await self.phases()
            return all(phases.get(name) == phase for name in names)

        await self.until(condition, f"{phase} of {', '.join(names)}")

    async def until_all_ended(self, phase: str = "Succeeded", timeout_s: float = TIMEOUT_S) -> None:
        """Waits until every job of our kinds and every pod of a group has ended."""

        async def condition() -> bool:
            pods = (await self.api.get("/api/v1/pods"))["items"]
            groups = [pod for pod in pods if not pod["metadata"].get("ownerReferences")]
            done = all(pod["status"]["phase"] in ("Succeeded", "Failed") for pod in groups)
            return done and set((await self.phases()).values()) <= {phase}

        await self.until(condition, f"every job {phase}", timeout_s)

    async def check_invariants(self, *, alone: bool = True) -> None:
        """Checks that no invariant is violated now or was before. Statuses may take some seconds to be written.

        `alone`: no other scheduler is active, so that no node is over-allocated at any time.
        """
        last: list[str] = []

        async def is_valid() -> bool:
            last[:] = await violations.find_violations(self.api, self.kubelets, alone=alone)
            return not last

        try:
            await self.until(is_valid, "")
        except AssertionError:
            raise AssertionError(last) from None
        assert self.witness.bound, "no pod was bound"
        found = [*self.witness.doubles, *self.witness.overfull, *(self.witness.overbooked if alone else ())]
        assert not found, found
        assert not (errors := self.replicas.errors()), errors

    async def describe(self) -> str:
        """Phases and messages, and the objects of a few jobs that have not ended."""
        last_messages = {each.name: each.messages[-4:] for each in self.replicas.living}
        try:
            phases = await self.phases()
            waiting = [name for name, phase in phases.items() if phase not in ("Succeeded", "Failed")]
            details = [await self._describe_job(name) for name in waiting[:_DESCRIBED]]
        except SERVER_AWAY as failed:
            return f"{failed!r}, replicas {last_messages}"
        return "\n".join([f"{phases}, replicas {last_messages}, two generations {self.witness.doubles[:3]}", *details])

    async def _describe_job(self, name: str) -> str:
        """State, pods, events and the messages about one job."""
        jobs_there = [each for path in jobs.JOB_LISTS for each in (await self.api.get(path))["items"]]
        status = next((each.get("status") for each in jobs_there if each["metadata"]["name"] == name), None)
        pods = [_describe_pod(each) for each in (await self.api.get("/api/v1/pods"))["items"] if _is_part(each, name)]
        noted = (await self.api.get(EVENTS))["items"]
        events = [
            f"{each.get('eventTime')} {each.get('reason')}: {each.get('note')}"
            for each in noted
            if each.get("regarding", {}).get("name") == name
        ]
        replicas = (*self.replicas.dead, *self.replicas.living)
        about_it = [f"{each.name}: {text}" for each in replicas for text in each.messages if name in text]
        lines = {"status": [status], "pods": pods, "events": sorted(events), "messages": about_it[-10:]}
        return "\n".join([name, *(f"  {what}: {each}" for what, found in lines.items() for each in found)])


def _is_part(pod: dict[str, Any], job: str) -> bool:
    """Tells whether a pod is owned by the job of this name."""
    return any(owner["name"] == job for owner in pod["metadata"].get("ownerReferences", ()))


def _describe_pod(pod: dict[str, Any]) -> str:
    about, status = pod["metadata"], pod["status"]
    generation = about.get("labels", {}).get(GENERATION)
    deleted = f", deleted at {about['deletionTimestamp']}" if "deletionTimestamp" in about else ""
    place = pod["spec"].get("nodeName", "no node")
    return f"{about['name']} of generation {generation} on {place}: {status['phase']}{deleted}, {about['uid']}"


@asynccontextmanager
async def fault_scenario(
    plane: ControlPlane,
    folder: Path,
    *,
    nodes: int = 4,
    gpus: int = 4,
    lease: float = 1.0,
    heartbeat: float = 10.0,
    lists: Sequence[str] = jobs.LISTS,
    operators: Callable[[ControlPlane, Path, float], Operators] = Replicas,
) -> AsyncIterator[FaultScenario]:
    """`lists`: lists of everything that the scenario creates, which is removed after it."""
    async with plane.api() as api, FakeKubelets(plane.admin, heartbeat=heartbeat, script_of=jobs.program) as kubelets:
        await kubelets.add_nodes([f"n{index + 1}" for index in range(nodes)], gpus=gpus)
        replicas = operators(plane, folder, lease)
        witness = Witness(api, kubelets)
        scenario = FaultScenario(plane, api, kubelets, witness, replicas)
        try:
            async with witness:
                yield scenario
        finally:
            await replicas.close()
            await scenario.retry(lambda: clear(api, *lists))
            await scenario.retry(lambda: forget_lease(api))


async def forget_lease(api: Api) -> None:
    try:
        await api.delete(f"{LEASES}/{LEASE}")
    except ApiError as failed:
        if failed.status != 404:
            raise
