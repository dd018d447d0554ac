"""Every golden script of the core has the same result through a real API server."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes_host import create_definitions
from stage import replay

from windlass.controlplane.cluster import ControlPlane

from .kubernetes_stage import KubernetesStage

SCRIPTS = sorted((Path(__file__).parents[2] / "scenarios").glob("*.scenario"))


@pytest.fixture(scope="module")
def plane(apiserver: ControlPlane) -> ControlPlane:
    async def story() -> None:
        async with apiserver.api() as api:
            await create_definitions(api)

    asyncio.run(story())
    return apiserver


@pytest.fixture
def stage(plane: ControlPlane) -> Iterator[KubernetesStage]:
    made = KubernetesStage(plane)
    yield made
    made.close()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_scenario(script: Path, stage: KubernetesStage) -> None:
    written = script.read_text()
    assert replay(written, stage) == written
