"""Objects of other writers that the backend cannot use: each is set aside by itself, and everything else continues."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from recorded_api import Cluster

GANG, SIZE = "windlass.dev/gang", "windlass.dev/gang-size"
NUMBERS = [
    "0" * 8 + "1" * 4_301,
    "1" * 4_309,
    "000000001" + "0" * 4_300,
    "9" * 19,
    "-1",
    "1e9",
    "²",
    "٣",
    "0x10",
    "1_0",
    " 1",
    "",
]


def play(story: Callable[[Cluster], Awaitable[None]]) -> list[str]:
    """Runs a story on a cluster with one node; returns what was reported."""

    async def whole() -> list[str]:
        cluster, reports = Cluster("n1"), list[str]()
        await cluster.lead()
        try:
            await story(cluster)
        finally:
            await cluster.backend.close()
        return reports

    return asyncio.run(whole())


@pytest.mark.parametrize("size", NUMBERS, ids=[f"{each[:9]} of {len(each)}" for each in NUMBERS])
def test_a_gang_size_of_any_length_holds_up_its_own_pods_only(size: str) -> None:
    async def story(on: Cluster) -> None:
        on.put_pod("odd", 1, scheduler="windlass", labels={GANG: "g"}, annotations={SIZE: size})
        on.put_pod("healthy", 1, scheduler="windlass")
        await on.run()
        assert on.api.bound == {"healthy": "n1"}

    play(story)
