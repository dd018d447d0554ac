"""Known jobs that the cluster does not let start: they stay queued, without failures, until it does."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Literal

import pytest
from msgspec import structs
from recorded_api import Cluster, RecordedApi

from windlass.backends.kubernetes.client import objects
from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.object_cache import Change
from windlass.core.model.reasons import Reason
from windlass.core.model.status import Phase

JOB = "ml/digits"
UNMANAGED = {"windlass.dev/managed": "false"}


class GuardedApi(RecordedApi):
    """Refuses pods while the namespace is not managed, as the policy for the operator's writes does."""

    is_closed = False
    refused = 0

    async def request(self, _method: str, _path: str, *, body: dict[str, Any]) -> bytes:
        if self.is_closed:
            self.refused += 1
            raise ApiError(403, "Forbidden", "ValidatingAdmissionPolicy 'windlass-operator-writes' denied request")
        return await super().request(_method, _path, body=body)


async def leave_namespace(cluster: Cluster, api: GuardedApi) -> None:
    """The namespace stops being managed, and the pods that wait in it are deleted."""
    cluster.put_namespace(**UNMANAGED)
    api.is_closed = True
    await cluster.run(2)
    for pod in list(cluster.backend.pods.all()):
        cluster.remove_pod(pod)


def put_class(cluster: Cluster, *, kind: Literal["modified", "deleted"] = "modified") -> None:
    about = {"name": "high", "uid": "high", "resourceVersion": "1"}
    high = objects.priority_class(json.dumps({"metadata": about, "value": 1000}))
    cluster.backend.monitor.lookups.see_priorities([Change(kind, high)])


def test_a_running_job_keeps_its_priority_under_a_new_leader_after_its_class_is_deleted() -> None:
    async def story() -> None:
        cluster = Cluster("n1")
        put_class(cluster)
        await cluster.lead()
        spec: dict[str, Any] = {"gpus": 2, "pod": {"spec": {"priorityClassName": "high"}}}
        cluster.put_job(**spec)
        await cluster.run(4)
        (pod,) = cluster.backend.pods.all()
        resolved = structs.replace(pod, spec=structs.replace(pod.spec, priority=1000, node_name="n1"))
        put_class(cluster, kind="deleted")
        await cluster.run(2)
        kept = cluster.controller.states[JOB].job
        await cluster.backend.close()
        cluster = Cluster("n1", api=cluster.api)
        cluster.put_job(status=cluster.api.statuses["digits"], **spec)
        cluster.backend.pods.learn(resolved)
        await cluster.lead()
        assert (kept.priority, cluster.controller.states[JOB].job.priority) == (1000, 1000)
        assert "no PriorityClass high" in cluster.controller.states[JOB].job.hold
        assert cluster.status(JOB).phase is Phase.ADMITTED
        await cluster.backend.close()

    asyncio.run(story())


@pytest.mark.parametrize("has_new_leader", [False, True])
def test_a_queued_job_waits_without_failures_while_its_namespace_is_not_managed(*, has_new_leader: bool) -> None:
    async def story() -> None:
        api = GuardedApi()
        cluster = Cluster("n1", api=api)
        await cluster.lead()
        cluster.put_pod("theirs", 2, node="n1")
        cluster.put_job(gpus=2)
        await cluster.run(4)
        await leave_namespace(cluster, api)
        if has_new_leader:
            await cluster.backend.close()
            cluster = Cluster("n1", api=api)
            cluster.put_namespace(**UNMANAGED)
            cluster.put_job(gpus=2, status=api.statuses["digits"])
            await cluster.lead()
        for _ in range(6):
            await cluster.run(2)
            cluster.now += 60_000
        verdict = cluster.controller.plan.verdicts[JOB]
        assert (verdict.reason, "is not managed" in verdict.message) == (Reason.ON_HOLD, True)
        assert (cluster.status(JOB).phase, cluster.status(JOB).infrastructure_failures) == (Phase.QUEUED, 0)
        assert api.refused == 0
        api.is_closed = False
        cluster.put_namespace()
        await cluster.run(6)
        assert api.bound == {"digits-worker-0": "n1"}
        await cluster.backend.close()

    asyncio.run(story())
