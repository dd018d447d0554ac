"""Malformed objects of other writers, of every watched kind: the operator leads on, and a healthy job succeeds.

WINDLASS_FOREIGN_OBJECTS is their number: 171 in `make test`, 10,070 in `make soak`.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
from collections import Counter
from pathlib import Path

import orjson
import pytest
from faults import jobs
from faults.fault_scenario import FaultScenario, fault_scenario
from faults.foreign_objects import MAKERS, ForeignObject, foreign_objects, foreign_status

from windlass.controlplane.api import Api, ApiError
from windlass.controlplane.cluster import ControlPlane

COUNT = int(os.environ.get("WINDLASS_FOREIGN_OBJECTS", "171"))
SEED = 15
AT_ONCE = 32
BATCH = len(MAKERS) * 9
REFUSED = (400, 403, 404, 409, 413, 422, 500)
"""Statuses of objects that the API server refuses: also names that are taken, and numbers that it cannot convert."""

BUSY, ATTEMPTS = (429, 503, 504), 10
"""Statuses of an API server that has no time at present, and the number of attempts."""


@pytest.mark.timeout(1800)
def test_objects_of_others_hold_up_no_healthy_job(plane: ControlPlane, tmp_path: Path) -> None:
    async def whole() -> None:
        async with fault_scenario(plane, tmp_path, nodes=2, lease=15.0) as on:
            operator = await on.replicas.start()
            await on.replicas.leader()
            fates: Counter[str] = Counter()
            made = foreign_objects(COUNT, SEED)
            for number, batch in enumerate(iter(lambda: list(itertools.islice(made, BATCH)), [])):
                fates += await hand_in(on, batch, f"healthy-{number}")
                assert on.replicas.living == [operator]
                assert operator.leads
            assert fates.total() == COUNT
            assert not (never := [name for name in MAKERS if not fates[f"{name} accepted"]]), (never, fates)
            assert not [text for text in operator.messages if "nothing foresees" in text]
            await on.check_invariants()

    asyncio.run(whole())


async def hand_in(on: FaultScenario, objects: list[ForeignObject], healthy: str) -> Counter[str]:
    """Creates and changes the objects, runs a job beside them whose status others write as well, and deletes them."""
    room = asyncio.Semaphore(AT_ONCE)
    kinds = itertools.cycle(MAKERS)
    fates: Counter[str] = Counter()
    there: list[ForeignObject] = []

    async def give(each: ForeignObject, kind: str) -> None:
        async with room:
            accepted = await is_accepted(on.api, "POST", each.path, each.manifest)
            fates[f"{kind} {'accepted' if accepted else 'refused'}"] += 1
            there.extend([each] if accepted else [])
            for subresource, patch in each.writes if accepted else ():
                await is_accepted(on.api, "PATCH", f"{each.path}/{each.name}/{subresource}".rstrip("/"), patch)

    await on.make(jobs.training_job(healthy, 2, 1.0))
    await asyncio.gather(*(give(each, kind) for each, kind in zip(objects, kinds, strict=False)))
    await disturb(on, healthy)
    await on.until_phase("Succeeded", healthy)
    await asyncio.gather(*(remove(on.api, room, each) for each in there))
    return fates


async def disturb(on: FaultScenario, name: str) -> None:
    """Writes into the status of a job until it has ended, as another writer would."""
    chance = random.Random(SEED)  # noqa: S311 - faults, not secrets
    path = f"{jobs.path(jobs.training_job(name, 2))}/{name}/status"
    for _ in range(10):
        await is_accepted(on.api, "PATCH", path, foreign_status(chance))
        await asyncio.sleep(0.1)


async def is_accepted(api: Api, method: str, path: str, body: jobs.Manifest) -> bool:
    form = "application/merge-patch+json" if method == "PATCH" else "application/json"
    for is_last in (*[False] * (ATTEMPTS - 1), True):
        try:
            await api.request(method, path, body, form=form)
        except orjson.JSONDecodeError:  # this client cannot read the reply: it is nested too deep
            return True
        except ApiError as failed:
            if failed.status in REFUSED:
                return False
            if is_last or failed.status not in BUSY:
                raise
            await asyncio.sleep(1)
        else:
            return True
    raise AssertionError("unreachable: the last attempt returns or raises")


async def remove(api: Api, room: asyncio.Semaphore, each: ForeignObject) -> None:
    path = f"{each.path}/{each.name}"
    async with room:
        await is_accepted(api, "PATCH", path, {"metadata": {"finalizers": None}})
        await is_accepted(api, "DELETE", path, {"gracePeriodSeconds": 0})
