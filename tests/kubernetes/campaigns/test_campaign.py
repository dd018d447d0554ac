"""Seeded fault schedules against a mixed load, judged by the witness.

WINDLASS_KUBERNETES_SCHEDULES is their number (2 in `make test`, 200 in `make soak-kubernetes`), WINDLASS_FIRST_SEED the
first seed, and WINDLASS_CAMPAIGN_RESULTS a file to which the result of each is appended.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import campaign_results
import pytest
from faults import jobs
from planes.tidy import clear

import strays
from windlass.controlplane.cluster import ControlPlane
from windlass.controlplane.fake_kubelet import FakeKubelets

from . import load
from .campaign import Report, run_schedules
from .cluster_view import Verb
from .judge import Judge
from .observer import Observer
from .schedule import Arrival, Schedule, draw_schedule

COUNT = int(os.environ.get("WINDLASS_KUBERNETES_SCHEDULES", "2"))
FIRST = int(os.environ.get("WINDLASS_FIRST_SEED", "1"))
RESULTS = os.environ.get("WINDLASS_CAMPAIGN_RESULTS")
TOGETHER = 10
"""Number of schedules that the same operators live through, unless a fault kills them."""


async def run_some(plane: ControlPlane, folder: Path, schedules: Sequence[Schedule]) -> list[Report]:
    """Runs some schedules on the same nodes and operators, and shows the report of each as soon as it is there."""
    reports = []
    async for report in run_schedules(plane, folder, schedules):
        sys.stdout.write(f"{report.schedule}: {len(report.violations)} violations in {report.seconds:.0f} s\n")
        if RESULTS:
            campaign_results.append(Path(RESULTS), report.part())
        reports.append(report)
    return reports


@pytest.mark.controllers
@pytest.mark.timeout(180 + 180 * COUNT)
def test_no_schedule_of_faults_violates_what_is_promised(campaign_plane: ControlPlane, tmp_path: Path) -> None:
    failed = []
    left = [draw_schedule(seed) for seed in range(FIRST, FIRST + COUNT)]
    while left:
        folder = tmp_path / str(left[0].seed)
        folder.mkdir()
        reports = asyncio.run(run_some(campaign_plane, folder, left[:TOGETHER]))
        failed += ["\n".join([str(each.schedule), *each.violations]) for each in reports if each.violations]
        left = left[len(reports) :]
    assert not failed, "\n\n".join(failed)


@pytest.mark.controllers
def test_violations_made_by_hand_are_reported(campaign_plane: ControlPlane) -> None:
    """Without an operator: the witness sees them on a real API server."""
    judge = Judge(window=0.0)

    async def scenario() -> None:
        async with campaign_plane.api() as api, FakeKubelets(campaign_plane.admin, script_of=jobs.program) as kubelets:
            await kubelets.add_nodes(["n1"], gpus=1)
            try:
                async with Observer(api, judge, load.PATHS) as observer, asyncio.timeout(strays.TIMEOUT_S * 3):
                    _group, *pods = load.gang("group", Arrival(0, "coscheduling_group", 3, 30))
                    for each in pods[:2]:
                        each["spec"]["nodeName"] = "n1"
                    for each in (*load.gang("lost", Arrival(0, "training_job", 2, 1)), *pods):
                        await api.post(load.path(each), each)
                    await api.delete(f"{load.path(load.gang('lost', Arrival(0, 'training_job', 2, 1))[0])}/lost")
                    while len(judge.violations) < 4:
                        await asyncio.sleep(0.1)
                        observer.observe(Verb.TIME)
                        observer.check_running()
            finally:
                await clear(api, *load.CREATED)

    asyncio.run(scenario())
    assert {(each.rule, each.subject) for each in judge.violations.values()} == {
        ("over_allocated_node", "n1"),
        ("partly_bound_gang", "group"),
        ("wrong_end", "group-1"),  # refused by the kubelet
        ("lost_object", "lost"),
    }
