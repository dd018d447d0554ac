"""Whoever asks for the truth hears what is wrong: each of these is made wrong by hand, without an operator."""

from __future__ import annotations

import asyncio
from pathlib import Path

from controlplane.cluster import ControlPlane

from . import jobs, truth
from .story import story


def test_what_is_wrong_is_told(plane: ControlPlane, tmp_path: Path) -> None:
    async def tale() -> list[str]:
        async with story(plane, tmp_path, nodes=1, gpus=1) as on:
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
            return await on.surely(lambda: truth.wrongs(on.api, on.kubelets))

    told = asyncio.run(tale())
    assert "orphan has no living owner" in told
    assert "the group group is bound in part" in told
    assert "TrainingJob nobodys: nobody has taken it in" in told
    assert sum(each.endswith("was put where it has no room") for each in told) == 2
