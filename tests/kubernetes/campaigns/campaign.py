"""Runs schedules on a control plane, and reports the violations that the witness found."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from faults.fault_scenario import FaultScenario, fault_scenario
from planes.fault_proxy import FaultProxy
from planes.tidy import clear

from windlass.controlplane.cluster import ControlPlane
from windlass.server.operator import replica

from . import load
from .cluster_view import Verb
from .faults import FAULTS, Clock, Rig
from .judge import Judge
from .observer import Observer
from .schedule import Arrival, PlannedFault, Schedule

SETTLED_WITHIN_S = 180.0
"""Seconds after the last fault within which every gang must have ended."""
LEASE_S = 8.0
_SHOWN_MESSAGES = 12


@dataclass(frozen=True, slots=True)
class Report:
    schedule: Schedule
    violations: Sequence[str]
    observations: int
    pods: int
    seconds: float

    def part(self) -> dict[str, Any]:
        """The result as `tools/campaign_results.py` sums it up, and the details for a search."""
        return {
            "first": self.schedule.seed,
            "schedules": 1,
            "faults": Counter(each.name for each in self.schedule.faults),
            "violations": [self.schedule.seed] if self.violations else [],
            "found": list(self.violations),
            "loads": [each.load for each in self.schedule.arrivals],
            "observations": self.observations,
            "pods": self.pods,
            "seconds": round(self.seconds, 1),
        }


async def run_schedules(plane: ControlPlane, folder: Path, schedules: Sequence[Schedule]) -> AsyncIterator[Report]:
    """Runs schedules one after another on the same nodes and operators, and yields the report of each.

    The objects of a schedule are removed after it. The first one with a violation is the last one. `folder` is empty.
    """
    async with plane.kept_running(), fault_scenario(plane, folder, lease=LEASE_S, lists=load.CREATED) as on:
        with stepped_clock() as clock:
            async with FaultProxy(plane, seed=schedules[0].seed) as proxy:
                on.patience = SETTLED_WITHIN_S
                for _ in range(2):
                    await on.replicas.start(proxy.url)
                await on.replicas.leader()
                for schedule in schedules:
                    report = await play(Rig(on, proxy, clock), schedule)
                    yield report
                    if report.violations:
                        return
                    await on.retry(lambda: clear(on.api, *load.CREATED, nodes=False))


async def play(rig: Rig, schedule: Schedule) -> Report:
    """Runs the load and the faults, waits until every gang has ended, and judges the history."""
    began, judge = time.monotonic(), Judge()
    async with Observer(rig.on.api, judge, load.PATHS) as observer:
        await _perform(rig, observer, schedule)
        await until_settled(observer)
    found = [*map(str, judge.close()), *_seen_beside(rig.on)]
    if found:
        messages = {each.name: each.messages[-_SHOWN_MESSAGES:] for each in rig.on.replicas.living}
        found.append(f"operators: {messages}")
    return Report(schedule, found, judge.observed, len(judge.view.created), time.monotonic() - began)


def _seen_beside(on: FaultScenario) -> list[str]:
    """Violations that the API does not show: of kubelets, containers, and the operators' own messages."""
    refused = [f"{pod['metadata']['name']} was put where it has no room" for pod in on.kubelets.refused]
    return [*on.replicas.errors(), *refused, *on.witness.doubles, *on.witness.overfull]


@contextmanager
def stepped_clock() -> Iterator[Clock]:
    """Gives the operators in this process a clock that a fault can step."""
    clock = Clock(replica.epoch_ms)
    with mock.patch.object(replica, "epoch_ms", clock):
        yield clock


async def _perform(rig: Rig, observer: Observer, schedule: Schedule) -> None:
    async with asyncio.TaskGroup() as group:
        for number, arrival in enumerate(schedule.arrivals):
            name = f"s{schedule.seed}-{number}-{arrival.load.replace('_', '-')}"
            group.create_task(_create(rig.on, name, arrival))
        for fault in schedule.faults:
            group.create_task(_inflict(rig, observer, fault))


async def _create(on: FaultScenario, name: str, arrival: Arrival) -> None:
    await asyncio.sleep(arrival.at)
    for each in load.gang(name, arrival):
        await on.retry(lambda each=each: on.make_at(load.path(each), each))


async def _inflict(rig: Rig, observer: Observer, fault: PlannedFault) -> None:
    await asyncio.sleep(fault.at)
    observer.observe(Verb.DISTURBED, fault.name)
    try:
        async with FAULTS[fault.name](rig, fault):
            await asyncio.sleep(fault.duration)
    finally:
        observer.observe(Verb.CALM, fault.name)


async def until_settled(observer: Observer, within: float = SETTLED_WITHIN_S) -> None:
    """Waits until every gang has ended and no lasting rule is broken, or a violation was found."""
    deadline = time.monotonic() + within
    while observer.judge.unfinished() and not observer.judge.violations and time.monotonic() < deadline:
        observer.check_running()
        await asyncio.sleep(0.2)
