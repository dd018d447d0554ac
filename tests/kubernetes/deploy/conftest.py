"""A cluster with the definitions of every kind, and requests that change nothing in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from windlass.backends.kubernetes.client.access import from_kubeconfig
from windlass.backends.kubernetes.client.connection import Connection
from windlass.controlplane.api import Api
from windlass.controlplane.cluster import ControlPlane
from windlass.deploy.crds import DEFAULT, POD_GROUPS, crds
from windlass.deploy.install.installer import apply


@pytest.fixture(scope="session")
def with_kinds(apiserver: ControlPlane) -> ControlPlane:
    """The API server with every definition."""

    async def story() -> None:
        async with Connection(from_kubeconfig(str(apiserver.kubeconfig))) as connection:
            async for _ in apply(connection, crds((*DEFAULT, POD_GROUPS))):
                pass

    asyncio.run(story())
    return apiserver


@pytest.fixture
def run_on_api(with_kinds: ControlPlane) -> Callable[[Callable[[Api], Coroutine[Any, Any, Any]]], Any]:
    """Run a coroutine with a client of it."""

    def run(story: Callable[[Api], Coroutine[Any, Any, Any]]) -> Any:
        async def connected() -> Any:
            async with with_kinds.api() as api:
                return await story(api)

        return asyncio.run(connected())

    return run
