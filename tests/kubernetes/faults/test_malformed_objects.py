"""Malformed objects: refused by the API server, or reported in a condition; the operator continues.

WINDLASS_MALFORMED is their number: 500 in `make test`, 10,000 in `make soak`.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections import Counter
from typing import Any

import pytest
from deploy.samples import place

from windlass.controlplane.api import ApiError
from windlass.controlplane.cluster import ControlPlane

from . import jobs
from .conftest import Play
from .fault_scenario import TIMEOUT_S, FaultScenario
from .mutations import Manifest, mutated

COUNT = int(os.environ.get("WINDLASS_MALFORMED", "500"))
SEED = 20
AT_ONCE = 64
BATCH = 250


@pytest.mark.timeout(900)
def test_malformed_objects_are_refused_or_reported_and_the_operator_continues(plane: ControlPlane, play: Play) -> None:
    async def scenario(on: FaultScenario) -> None:
        operator = await on.replicas.start()
        await on.replicas.leader()
        fates: Counter[str] = Counter()
        mutants = mutated(COUNT, SEED)
        while batch := list(itertools.islice(mutants, BATCH)):
            fates += await hand_in(on, batch)
        assert fates.total() == COUNT
        assert all(fates[each] for each in ("refused", "taken in", "reported")), fates
        assert on.replicas.living == [operator]
        assert operator.leads
        await on.kubelets.add_nodes(["n1"], gpus=4)
        await on.make(jobs.training_job("good", 2, 0.1))
        await on.until_phase("Succeeded", "good")

    play(plane, scenario, nodes=0, lease=15.0)


async def hand_in(on: FaultScenario, manifests: list[Manifest]) -> Counter[str]:
    """Creates the objects, waits until each accepted one has its outcome, and deletes them."""
    room = asyncio.Semaphore(AT_ONCE)

    async def made(manifest: Manifest) -> Manifest | None:
        async with room:
            try:
                return await on.api.post(place(manifest), manifest)
            except ApiError as failed:
                if failed.status not in (400, 422):
                    raise
                return None

    passed = [each for each in await asyncio.gather(*map(made, manifests)) if each is not None]
    fates = Counter({"refused": len(manifests) - len(passed)})
    last: list[Manifest] = []

    async def known() -> bool:
        last[:] = await asyncio.gather(*(now(each) for each in passed))
        return all(map(fate, last))

    async def now(manifest: Manifest) -> Manifest:
        async with room:
            return await on.api.get(place(manifest, manifest["metadata"]["name"]))

    try:
        await on.until(known, "every fate", TIMEOUT_S)
    except AssertionError:
        left = [each for each in last if not fate(each)]
        raise AssertionError(f"{len(left)} of {len(passed)} without an outcome: {left[:3]}") from None
    fates += Counter(map(fate, last))

    async def gone(manifest: Manifest) -> None:
        async with room:
            await on.api.delete(place(manifest, manifest["metadata"]["name"]))

    await asyncio.gather(*map(gone, passed))

    await on.until(lambda: collect_garbage(on), "no pods are left")
    return fates


async def collect_garbage(on: FaultScenario) -> bool:
    """Delete what garbage collection would delete: this plane has no controller for it. Whether no pod is left."""
    for kind in ("pods", "configmaps", "services"):
        for each in (await on.api.get(f"/api/v1/{kind}"))["items"]:
            if kind == "pods" or each["metadata"].get("ownerReferences"):
                path = f"/api/v1/namespaces/default/{kind}/{each['metadata']['name']}"
                await on.api.delete(path, gracePeriodSeconds=0)
    return not (await on.api.get("/api/v1/pods"))["items"]


def fate(manifest: dict[str, Any]) -> str:
    """The outcome of an object; empty: none yet."""
    status = manifest.get("status") or {}
    if manifest["kind"] == "Queue":
        return "a queue"
    if (manifest["spec"].get("runPolicy") or {}).get("managedBy") not in (None, "windlass.dev/operator"):
        return "somebody else's"
    if status.get("windlass"):
        return "taken in"
    refused = [
        each for each in status.get("conditions", ()) if each["type"] == "Accepted" and each["status"] == "False"
    ]
    return "reported" if refused and refused[0]["message"] else ""
