"""A job whose state the API server refuses, on the Kubernetes backend: it waits without nodes, and others go on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from recorded_api import Cluster, RecordedApi

from windlass.backends.kubernetes.client.api_errors import ApiError, Unreachable
from windlass.controller.controller import Controller, run
from windlass.core.model.status import Phase

JOB = "ml/digits"


class RefusingApi(RecordedApi):
    """Fails every write of a job's status with `error`; the server answers reads."""

    error: Exception | None = None

    async def patch(self, resource: Any, namespace: str, name: str, body: Any, **more: Any) -> Any:
        if self.error is not None and name == "digits":
            raise self.error
        return await super().patch(resource, namespace, name, body, **more)

    async def request(self, method: str, path: str, **more: Any) -> bytes:
        return b"{}" if method == "GET" else await super().request(method, path, **more)


def play(story: Callable[[Cluster, RefusingApi, list[str]], Awaitable[None]]) -> None:
    """Runs a story beside the controller's loop, on a cluster with one node."""

    async def whole() -> None:
        api, reports = RefusingApi(), list[str]()
        cluster = Cluster("n1", api=api)
        cluster.controller = Controller(cluster.backend.recover(), cluster.backend.finished, refuses=False)
        running = asyncio.create_task(run(cluster.controller, cluster.backend, on_trouble=reports.append))
        try:
            await story(cluster, api, reports)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await cluster.backend.close()

    asyncio.run(whole())


async def pass_seconds(cluster: Cluster, count: int) -> None:
    for _ in range(count):
        cluster.now += 1_000
        cluster.backend.wake()
        await asyncio.sleep(0.01)


ERRORS = pytest.mark.parametrize("error", [ApiError(500, "InternalError", "webhook"), Unreachable("too slow")], ids=str)


@ERRORS
def test_another_gang_gets_the_node_of_a_job_whose_state_is_refused(error: Exception) -> None:
    async def story(on: Cluster, api: RefusingApi, reports: list[str]) -> None:
        api.error = error
        on.put_job(nodes=1, gpus=2)
        await pass_seconds(on, 20)
        status = on.status(JOB)
        assert (status.phase, status.placement, status.infrastructure_failures) == (Phase.QUEUED, None, 0)
        assert len(reports) == 1
        on.put_pod("ours", 2, scheduler="windlass")
        await pass_seconds(on, 20)
        assert api.bound == {"ours": "n1"}
        assert on.status(JOB).phase is Phase.QUEUED

    play(story)


@ERRORS
def test_the_job_starts_when_its_state_is_taken(error: Exception) -> None:
    async def story(on: Cluster, api: RefusingApi, _reports: list[str]) -> None:
        api.error = error
        on.put_job(nodes=1, gpus=2)
        await pass_seconds(on, 20)
        assert api.bound == {}
        api.error = None
        await pass_seconds(on, 60)
        assert list(api.bound.values()) == ["n1"]
        assert (on.status(JOB).generation, on.status(JOB).infrastructure_failures) == (1, 0)

    play(story)
