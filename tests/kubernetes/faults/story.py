"""The stage of one fault: a cluster of fake nodes, operators, and somebody who watches all of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
from controlplane.api import Api, ApiError
from controlplane.cluster import ControlPlane
from controlplane.fake_kubelet import FakeKubelets
from controlplane.tidy import clear

import strays

from . import jobs, truth
from .replicas import LEASE, Replicas
from .witness import Witness

T = TypeVar("T")
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
TIMEOUT_S = 3 * strays.TIMEOUT_S
AWAY = (ApiError, aiohttp.ClientError, OSError)
"""What a request meets while the server is away."""


class Story:
    def __init__(self, plane: ControlPlane, api: Api, kubelets: FakeKubelets, witness: Witness, ops: Replicas) -> None:
        self.plane, self.api, self.kubelets, self.witness, self.replicas = plane, api, kubelets, witness, ops

    async def make(self, *manifests: jobs.Manifest) -> None:
        for each in manifests:
            await self.surely(lambda each=each: self._make(each))

    async def _make(self, manifest: jobs.Manifest) -> None:
        try:
            await self.api.post(jobs.path(manifest), manifest)
        except ApiError as failed:
            if failed.status != 409:
                raise

    async def surely(self, work: Callable[[], Awaitable[T]]) -> T:
        """As a user who tries again."""
        give_up = time.monotonic() + TIMEOUT_S
        while True:
            try:
                return await work()
            except AWAY as failed:
                if (isinstance(failed, ApiError) and failed.status in (400, 404, 422)) or time.monotonic() > give_up:
                    raise
                await asyncio.sleep(0.1)

    async def job(self, name: str, path: str = jobs.TRAININGJOBS) -> dict[str, Any]:
        root, _, plural = path.rpartition("/")
        return await self.api.get(f"{root}/namespaces/{jobs.NAMESPACE}/{plural}/{name}")

    async def phases(self) -> dict[str, str]:
        """Of every job of our kinds."""
        listed = [each for path in jobs.JOB_LISTS for each in (await self.api.get(path))["items"]]
        return {
            each["metadata"]["name"]: (each.get("status") or {}).get("windlass", {}).get("phase", "") for each in listed
        }

    async def until(self, so: Callable[[], Awaitable[object]], what: str, patience: float = TIMEOUT_S) -> None:
        give_up = time.monotonic() + patience
        while True:
            try:
                if await so():
                    return
            except AWAY:
                pass
            if time.monotonic() > give_up:
                raise AssertionError(f"never came: {what}: {await self.told()}")
            await asyncio.sleep(0.2)

    async def until_phase(self, phase: str, *names: str) -> None:
        async def so() -> bool:
            phases = await self.phases()
            return all(phases.get(name) == phase for name in names)

        await self.until(so, f"{phase} of {', '.join(names)}")

    async def until_all_ended(self, phase: str = "Succeeded", patience: float = TIMEOUT_S) -> None:
        """Every job of ours, and every pod of a group."""

        async def so() -> bool:
            pods = (await self.api.get("/api/v1/pods"))["items"]
            groups = [pod for pod in pods if not pod["metadata"].get("ownerReferences")]
            done = all(pod["status"]["phase"] in ("Succeeded", "Failed") for pod in groups)
            return done and set((await self.phases()).values()) <= {phase}

        await self.until(so, f"every job {phase}", patience)

    async def is_true(self, *, alone: bool = True) -> None:
        """Nothing is wrong now, and nothing was at any moment. Statuses may take some seconds to be written.

        `alone`: nobody else schedules here, so not even for a moment more is given away than there is.
        """
        last: list[str] = []

        async def well() -> bool:
            last[:] = await truth.wrongs(self.api, self.kubelets, alone=alone)
            return not last

        try:
            await self.until(well, "")
        except AssertionError:
            raise AssertionError(last) from None
        assert self.witness.bound, "nothing was put on a node"
        wrongs = [*self.witness.doubles, *self.witness.overfull, *(self.witness.overbooked if alone else ())]
        assert not wrongs, wrongs
        assert not (troubles := self.replicas.troubles()), troubles

    async def told(self) -> str:
        said = {each.name: each.said[-4:] for each in self.replicas.living}
        try:
            return f"{await self.phases()}, replicas {said}, two generations {self.witness.doubles[:3]}"
        except AWAY as failed:
            return f"{failed!r}, replicas {said}"


@asynccontextmanager
async def story(
    plane: ControlPlane, folder: Path, *, nodes: int = 4, gpus: int = 4, lease: float = 1.0, heartbeat: float = 10.0
) -> AsyncIterator[Story]:
    async with plane.api() as api, FakeKubelets(plane.admin, heartbeat=heartbeat, script_of=jobs.program) as kubelets:
        await kubelets.add_nodes([f"n{index + 1}" for index in range(nodes)], gpus=gpus)
        replicas = Replicas(plane, folder, lease)
        try:
            async with Witness(api, kubelets) as witness:
                yield Story(plane, api, kubelets, witness, replicas)
        finally:
            await replicas.close()
            await clear(api, *jobs.LISTS)
            await forget_lease(api)


async def forget_lease(api: Api) -> None:
    try:
        await api.delete(f"{LEASES}/{LEASE}")
    except ApiError as failed:
        if failed.status != 404:
            raise
