"""Operators that live through many schedules keep their memory, their descriptors and the number of API objects.

WINDLASS_STEADY_SECONDS is the length: not run in `make test`, an hour in `make soak-kubernetes`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from windlass.controlplane.cluster import ControlPlane

from .campaign import Report
from .steady_use import Sample, growth, use_steadily

SECONDS = float(os.environ.get("WINDLASS_STEADY_SECONDS", "0"))
FIRST = int(os.environ.get("WINDLASS_FIRST_SEED", "100000"))
WARM_UP = 3
"""Schedules before the first sample that counts: caches and pools of connections fill."""
MEMORY_GROWTH_MIB = 12.0
"""Of two processes together; each has about 100."""
DESCRIPTOR_GROWTH = 8


def test_growth_is_that_of_the_last_third_over_the_one_before() -> None:
    assert growth([10, 11, 12, 13, 14, 15]) == 2
    assert growth([1, 2, 3, 10, 30, 11, 10, 29, 11]) == 0


@pytest.mark.controllers
@pytest.mark.skipif(SECONDS == 0, reason="part of make soak-kubernetes: WINDLASS_STEADY_SECONDS")
@pytest.mark.timeout(600 + 2 * SECONDS)
def test_operators_stay_as_large_as_they_were(campaign_plane: ControlPlane, tmp_path: Path) -> None:
    async def whole() -> list[tuple[Report, Sample]]:
        found = []
        async for report, sample in use_steadily(campaign_plane, tmp_path, SECONDS, FIRST):
            sys.stdout.write(f"{report.schedule}: {len(report.violations)} violations\n{sample}\n")
            found.append((report, sample))
        return found

    found = asyncio.run(whole())
    assert not [text for report, _ in found for text in report.violations]
    samples = [sample for _, sample in found][WARM_UP:]
    assert growth([each.memory for each in samples]) < MEMORY_GROWTH_MIB
    assert growth([each.descriptors for each in samples]) < DESCRIPTOR_GROWTH
    assert not samples[-1].objects - samples[0].objects, "objects that nothing removes"
