"""Measures operator processes and API objects while schedules run one after another for a long time."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from faults.fault_scenario import fault_scenario
from faults.operator_processes import OperatorProcesses
from planes.fault_proxy import FaultProxy
from planes.tidy import clear

from windlass.controlplane.api import Api, ApiError
from windlass.controlplane.cluster import ControlPlane

from . import load
from .campaign import LEASE_S, Report, play
from .faults import Clock, Rig
from .schedule import FAULTS, draw_schedule

SHORT_LIVED = ("leader_killed", "clock_step")
"""Faults that need another process than the one that is measured, or its clock."""
LONG_LIVED = tuple(name for name in FAULTS if name not in SHORT_LIVED)
_NOT_COUNTED = ("/api/v1/events", "/apis/events.k8s.io/v1/events")
"""Events end by themselves after an hour."""
_COLLECTED_WITHIN_S = 60.0
"""Seconds within which the garbage collector has removed the dependents of deleted jobs."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Of all operator processes together, after a schedule: resident memory in MiB, and open file descriptors."""

    at: float
    memory: float
    descriptors: int
    objects: Counter[str]
    """Number of objects by the path of their list, once everything that a schedule created is removed."""

    def __str__(self) -> str:
        total = self.objects.total()
        return f"{self.at:6.0f} s: {self.memory:6.1f} MiB, {self.descriptors} descriptors, {total} objects"


async def use_steadily(
    plane: ControlPlane, folder: Path, seconds: float, first_seed: int
) -> AsyncIterator[tuple[Report, Sample]]:
    """Yields the report and the sample of each schedule until `seconds` have passed."""
    began = time.monotonic()
    async with (
        plane.kept_running(),
        fault_scenario(plane, folder, lease=LEASE_S, lists=load.CREATED, operators=OperatorProcesses) as on,
        FaultProxy(plane, seed=first_seed) as proxy,
    ):
        for _ in range(2):
            await on.replicas.start(proxy.url)
        await on.replicas.leader()
        before = await count_objects(on.api)
        seed = first_seed
        while time.monotonic() - began < seconds:
            report = await play(Rig(on, proxy, Clock(lambda: 0)), draw_schedule(seed, LONG_LIVED))
            await clear(on.api, *load.CREATED, nodes=False)
            objects = await _once_collected(on.api, before)
            pids = [each.pid for each in on.replicas.living]
            at = time.monotonic() - began
            yield report, Sample(at, sum(map(memory_of, pids)), sum(map(descriptors_of, pids)), objects)
            seed += 1


def memory_of(pid: int) -> float:
    """Resident memory of a process in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def descriptors_of(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


async def _once_collected(api: Api, before: Counter[str]) -> Counter[str]:
    """Counts objects as soon as there are no more than before, or the garbage collector has had its time."""
    deadline = time.monotonic() + _COLLECTED_WITHIN_S
    while True:
        counts = await count_objects(api)
        if not counts - before or time.monotonic() > deadline:
            return counts
        await asyncio.sleep(1)


async def count_objects(api: Api) -> Counter[str]:
    """Counts the objects of every kind that the API server lists."""
    counts: Counter[str] = Counter()
    for path in await _lists(api):
        try:
            listed = await api.get(path, limit=1)
        except ApiError as failed:
            if failed.status not in (404, 405):
                raise
            continue
        counts[path] = len(listed["items"]) + (listed["metadata"].get("remainingItemCount") or 0)
    return counts


async def _lists(api: Api) -> list[str]:
    groups = (await api.get("/apis"))["groups"]
    roots = ["/api/v1", *(f"/apis/{each['preferredVersion']['groupVersion']}" for each in groups)]
    found = []
    for root in roots:
        resources = (await api.get(root))["resources"]
        found += [f"{root}/{each['name']}" for each in resources if "list" in each["verbs"]]
    return [path for path in found if path not in _NOT_COUNTED]


def growth(values: Sequence[float]) -> float:
    """Median of the last third of some values, minus the median of the third before it.

    In the first third, pools of connections and the allocator's arenas reach their size.
    """
    third = max(1, len(values) // 3)
    return statistics.median(values[-third:]) - statistics.median(values[-2 * third : -third])
