"""External gangs whose preemption a disruption budget forbids: they go on as they were."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from recorded_api import Cluster, RecordedApi

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.objects import Pod
from windlass.core.model.status import Phase

PATIENT = "ml/pod/patient"


class BudgetApi(RecordedApi):
    """A disruption budget forbids each eviction."""

    async def evict(self, *_: Any, **__: Any) -> None:
        raise ApiError(429, message="it would violate the budget", causes=({"reason": "DisruptionBudget"},))


def with_node(pod: Pod, phase: str) -> Pod:
    written: dict[str, Any] = msgspec.to_builtins(pod)
    written["metadata"]["resourceVersion"] = str(int(written["metadata"]["resourceVersion"]) + 1000)
    written["spec"]["nodeName"] = "n1"
    return msgspec.convert(written | {"status": {"phase": phase}}, Pod)


def test_a_gang_that_began_while_it_was_to_be_evicted_runs_once_that_is_given_up() -> None:
    async def story() -> None:
        cluster = Cluster("n1", api=BudgetApi())
        cluster.backend._executor.deletion.eviction_timeout_s = 0.05
        await cluster.lead()
        pod = cluster.put_pod("patient", 2, scheduler="windlass")
        await cluster.run()
        assert cluster.api.bound == {"patient": "n1"}
        cluster.now += 3_600_000
        cluster.put_pod("urgent", 2, scheduler="windlass", priority=1_000)
        await cluster.run(2)
        assert cluster.status(PATIENT).phase is Phase.RESTARTING
        cluster.backend.pods.learn(with_node(pod, "Running"))
        await cluster.run(20)
        assert cluster.status(PATIENT).phase is Phase.RUNNING
        await cluster.backend.close()

    asyncio.run(story())
