"""Clusters with our kinds and with foreign PodGroups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from planes.fixtures import serve

from windlass.backends.kubernetes.client.access import from_kubeconfig
from windlass.backends.kubernetes.client.connection import Connection
from windlass.controlplane.cluster import ControlPlane, Settings
from windlass.deploy.crds import DEFAULT, POD_GROUPS, crds
from windlass.deploy.install.installer import apply

from .fault_scenario import FaultScenario, fault_scenario

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
    """A control plane of its own for tests that kill its servers."""
    for plane in serve(request, Settings()):
        define(plane)
        yield plane


@pytest.fixture(scope="session")
def with_controllers(controllers: ControlPlane) -> ControlPlane:
    """A control plane with garbage collection, deletion of namespaces, and kube-scheduler."""
    define(controllers)
    return controllers


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """Runs a scenario on a cluster and checks the invariants after it. `alone`: no other scheduler is active."""

    def run(
        plane: ControlPlane,
        scenario: Callable[[FaultScenario], Coroutine[Any, Any, None]],
        *,
        alone: bool = True,
        **given: Any,
    ) -> None:
        async def whole() -> None:
            async with fault_scenario(plane, tmp_path, **given) as on:
                await scenario(on)
                await on.check_invariants(alone=alone)

        asyncio.run(whole())

    return run
