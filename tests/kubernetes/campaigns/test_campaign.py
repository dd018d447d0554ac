"""Seeded fault schedules against a mixed load, judged by the witness.

WINDLASS_SCHEDULES is their number (2 in `make test`, 200 in `make soak`), WINDLASS_FIRST_SEED the first seed, and
WINDLASS_RESULTS a file to which one line of JSON is appended for each.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest
from controlplane.cluster import ControlPlane

from .campaign import run_schedule
from .schedule import draw_schedule

COUNT = int(os.environ.get("WINDLASS_SCHEDULES", "2"))
FIRST = int(os.environ.get("WINDLASS_FIRST_SEED", "1"))
RESULTS = os.environ.get("WINDLASS_RESULTS", "")


@pytest.mark.controllers
@pytest.mark.timeout(180 + 180 * COUNT)
def test_no_schedule_of_faults_violates_what_is_promised(campaign_plane: ControlPlane, tmp_path: Path) -> None:
    failed = []
    for seed in range(FIRST, FIRST + COUNT):
        schedule, folder = draw_schedule(seed), tmp_path / str(seed)
        folder.mkdir()
        sys.stdout.write(f"{schedule}\n")
        report = asyncio.run(run_schedule(campaign_plane, folder, schedule))
        sys.stdout.write(f"{report.line()}\n")
        if RESULTS:
            with Path(RESULTS).open("a", encoding="utf-8") as results:
                results.write(f"{report.line()}\n")
        if report.violations:
            failed.append("\n".join([str(schedule), *report.violations]))
    assert not failed, "\n\n".join(failed)
