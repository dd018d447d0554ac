"""Clusters that know our kinds, and the groups of others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from controlplane.cluster import ControlPlane, Settings
from controlplane.fixtures import serve

from windlass.backends.kubernetes.client.access import from_kubeconfig
from windlass.backends.kubernetes.client.connection import Connection
from windlass.deploy.crds import DEFAULT, POD_GROUPS, crds
from windlass.deploy.install.installer import apply

from .story import Story, story

Play = Callable[..., None]


def define(plane: ControlPlane) -> None:
    async def work() -> None:
        async with Connection(from_kubeconfig(str(plane.kubeconfig))) as connection:
            async for _ in apply(connection, crds((*DEFAULT, POD_GROUPS))):
                pass

    asyncio.run(work())


@pytest.fixture(scope="session")
def plane(apiserver: ControlPlane) -> ControlPlane:
    define(apiserver)
    return apiserver


@pytest.fixture(scope="session")
def fragile(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """A plane of its own for those who kill its servers."""
    for plane in serve(request, Settings()):
        define(plane)
        yield plane


@pytest.fixture(scope="session")
def with_controllers(controllers: ControlPlane) -> ControlPlane:
    """With garbage collection, the ends of namespaces, and kube-scheduler."""
    define(controllers)
    return controllers


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """Run a story on a cluster, and ask for the truth after it. `alone`: nobody else schedules here."""

    def run(
        plane: ControlPlane,
        tale: Callable[[Story], Coroutine[Any, Any, None]],
        *,
        alone: bool = True,
        **given: Any,
    ) -> None:
        async def whole() -> None:
            async with story(plane, tmp_path, **given) as on:
                await tale(on)
                await on.is_true(alone=alone)

        asyncio.run(whole())

    return run
