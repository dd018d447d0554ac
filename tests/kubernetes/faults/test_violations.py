"""Violations of invariants are found: each one is made by hand, without an operator."""

from __future__ import annotations

import asyncio
from pathlib import Path

from windlass.controlplane.cluster import ControlPlane

from . import jobs, violations
from .fault_scenario import fault_scenario


def test_each_violation_is_reported(plane: ControlPlane, tmp_path: Path) -> None:
    async def scenario() -> list[str]:
        async with fault_scenario(plane, tmp_path, nodes=1, gpus=1) as on:
            first, second = (jobs.single(f"single-{number}") for number in range(2))
            orphan = jobs.single("orphan")
            orphan["metadata"]["labels"] = {"windlass.dev/generation": "1"}
            group, *pods = jobs.pod_group("group", 2)
            for pod in (first, second, pods[0]):
                pod["spec"]["nodeName"] = "n1"
            await on.make(first, second, orphan, group, *pods, jobs.training_job("nobodys", 1))

            async def seen() -> bool:
                return len(on.kubelets.refused) == 2 and bool(on.witness.overbooked)

            await on.until(seen, "the kubelet's refusals")
            assert on.witness.overbooked[0] == "n1 has 1 devices, 2 are given away"
            return await on.retry(lambda: violations.find_violations(on.api, on.kubelets))

    found = asyncio.run(scenario())
    assert "orphan has no living owner" in found
    assert "the group group is bound in part" in found
    assert "TrainingJob nobodys: nobody has taken it in" in found
    assert sum(each.endswith("was put where it has no room") for each in found) == 2
