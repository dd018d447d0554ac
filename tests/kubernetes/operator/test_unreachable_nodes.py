"""Gangs on a node that is unreachable for a moment."""

from __future__ import annotations

import asyncio

import pytest
from operator_place import OperatorPlace

import strays

PODS = "/api/v1/namespaces/default/pods"
pytestmark = pytest.mark.apiserver


def test_a_node_that_is_unreachable_for_two_seconds_keeps_its_gangs(tell):
    async def story(place: OperatorPlace) -> None:
        await place.submit("digits", gpus=2, replicas=2)
        await place.phase("digits", "Running")
        before = await uids(place)
        await place.kubelets.silence("n1")
        await until_closed(place, closed=True)
        await asyncio.sleep(2)
        await place.kubelets.revive("n1")
        await until_closed(place, closed=False)
        job = await place.get("/v1/jobs/digits")
        assert (job["phase"], job["attempts"]) == ("Running", 1)
        assert await uids(place) == before

    tell(story)


async def uids(place: OperatorPlace) -> set[str]:
    return {pod["metadata"]["uid"] for pod in (await place.api.get(PODS))["items"]}


async def until_closed(place: OperatorPlace, *, closed: bool) -> None:
    async with asyncio.timeout(strays.TIMEOUT_S):
        while place.world.monitor.is_closed("n1") is not closed:  # noqa: ASYNC110 - a watch brings it
            await asyncio.sleep(0.02)
