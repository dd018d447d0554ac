"""A control plane with kube-scheduler's own gangs, Kueue and the controller of JobSets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from controlplane import kueue
from controlplane.cluster import ControlPlane, Settings
from controlplane.fixtures import serve

from windlass.deploy.crds import DEFAULT, crds

from .kueue_queues import create_queues

GATES = "--feature-gates=GenericWorkload=true,GangScheduling=true"
TRAINING_JOBS = "TrainingJob.v1alpha1.windlass.dev"


@pytest.fixture(scope="session")
def plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """Skips without the programs of Kueue, which `make test` does not build."""
    if lacking := kueue.lacking():
        pytest.skip(lacking)
    flags = (GATES, "--runtime-config=scheduling.k8s.io/v1alpha2=true")
    settings = Settings(controllers=True, node_grace=600, apiserver_flags=flags, scheduler_flags=(GATES,))
    for plane in serve(request, settings):
        asyncio.run(_install(plane))
        with kueue.kueue_servers(plane, [TRAINING_JOBS]) as servers:
            asyncio.run(_set_up(plane, servers))
            yield plane


async def _install(plane: ControlPlane) -> None:
    async with plane.api() as api:
        await kueue.install_kueue(api)
        await kueue.install(api, crds(DEFAULT))


async def _set_up(plane: ControlPlane, servers: tuple[kueue.KueueServer, ...]) -> None:
    async with plane.api() as api:
        await kueue.register_webhooks(api, plane, servers)
        await create_queues(api, servers)
