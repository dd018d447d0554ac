"""`windlass run` on a cluster tells the verdict on what its job waits for, without being asked."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from backend_host import Behaviour
from kubernetes_host import JOBS, namespaced
from operator_place import leading
from verdict_conditions import condition_of

import strays
from windlass.controlplane.cluster import ControlPlane
from windlass.server.operator.endpoints import EndpointSettings

from .cluster_terminal import Terminal, until_says

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(300)]
QUICK = EndpointSettings(open_queries=True, diagnoses_waits_after_s=0.5)


def test_the_verdict_on_an_image_that_cannot_be_pulled_is_printed_once(apiserver: ControlPlane, tmp_path: Path):
    async def story() -> None:
        async with leading(apiserver, tmp_path, settings=QUICK, image_pull_timeout=600_000) as place:
            windlass = Terminal(apiserver.kubeconfig, tmp_path)
            words = ("run", "--image", "example.com/job:1", "--name", "stuck", "--", Behaviour.UNSTARTABLE)
            async with windlass.began(*words) as process:
                job = (await until_says(process, "admitted in")).split()[1].rpartition("/")[2]
                line = await until_says(process, "attempt 1 waits: ")
                assert (await condition_of(place, job))["message"] in line
                await place.api.patch(f"{namespaced(JOBS)}/{job}", {"metadata": {"labels": {"looked": "at"}}})
                await place.api.delete(f"{namespaced(JOBS)}/{job}")
                assert process.stderr is not None
                rest = (await asyncio.wait_for(process.stderr.read(), strays.TIMEOUT_S)).decode()
                assert ("cancelled" in rest, "waits: " in rest) == (True, False), rest

    asyncio.run(story())
