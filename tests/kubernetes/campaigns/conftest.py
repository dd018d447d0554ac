"""A control plane of its own, with every kind that Windlass takes: its servers are killed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from external.conftest import NATIVE, define
from planes.fixtures import serve

import strays
from windlass.controlplane.api import Api, ApiError
from windlass.controlplane.cluster import ControlPlane, Settings

from . import load

SETTINGS = Settings(controllers=True, node_grace=600, eviction_after=300, apiserver_flags=NATIVE)
"""Nodes are marked by the fault alone, and pods tolerate an unreachable node for as long as Kubernetes lets them."""


@pytest.fixture(scope="session")
def campaign_plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    for plane in serve(request, SETTINGS):
        asyncio.run(define_kinds(plane))
        yield plane


async def define_kinds(plane: ControlPlane) -> None:
    """Defines the kinds, and waits until the API server lists them: their storage is set up in the background."""
    await define(plane)
    async with plane.api() as api, asyncio.timeout(strays.TIMEOUT_S * 3):
        for path in load.CREATED:
            while not await _is_listed(api, path):  # noqa: ASYNC110 - polled
                await asyncio.sleep(0.1)


async def _is_listed(api: Api, path: str) -> bool:
    try:
        await api.get(path)
    except ApiError as failed:
        if failed.status not in (404, 429):
            raise
        return False
    return True
