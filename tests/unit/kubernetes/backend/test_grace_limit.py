"""A tenant cannot keep lent quota: neither by the time that its pods have to end, nor by a disruption budget."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from recorded_api import Cluster, RecordedApi

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.pods.pod_deletion import is_leaving_within, limited_grace
from windlass.backends.port import JobEvent
from windlass.core.lifecycle.events import Preempt
from windlass.core.model.policy import MAX_GRACE_MS
from windlass.core.preemption.victims import BORROWED

LONGEST = 2**31 - 1
LIMIT_S = MAX_GRACE_MS // 1000


class Removals(RecordedApi):
    """Notes the seconds of grace with which pods are deleted or evicted."""

    def __init__(self) -> None:
        super().__init__()
        self.graces: dict[str, list[int | None]] = {}

    async def delete(self, *about: Any, grace: int | None = None, **options: Any) -> None:
        self.graces.setdefault(about[2], []).append(grace)
        await super().delete(*about, **options)

    async def evict(self, _namespace: str, pod: str, grace: int | None = None, **_: Any) -> None:
        self.graces.setdefault(pod, []).append(grace)


def started(cluster: Cluster, name: str, **metadata: Any) -> None:
    """The pod as it runs on its node."""
    manifest = msgspec.to_builtins(cluster.backend.pods.get("ml", name))
    manifest["metadata"] |= {"resourceVersion": cluster._version(), **metadata}
    manifest["spec"]["nodeName"] = cluster.api.bound[name]
    cluster.backend.pods.learn(msgspec.convert(manifest | {"status": {"phase": "Running"}}, Pod))


async def preempt(cluster: Cluster, job_id: str) -> None:
    cluster.backend.inbox.put(JobEvent(job_id, Preempt("for ml/other")))
    await cluster.run(3)


@pytest.mark.parametrize("seconds", [30, LONGEST])
def test_a_job_has_no_more_grace_than_the_policy_permits(seconds: int) -> None:
    async def story() -> None:
        cluster = Cluster("n1", api=Removals())
        await cluster.lead()
        cluster.put_job(nodes=1, gpus=1, pod={"spec": {"terminationGracePeriodSeconds": seconds}})
        await cluster.run()
        started(cluster, "digits-worker-0")
        await cluster.run(2)
        await preempt(cluster, "ml/digits")
        assert cluster.api.graces == {"digits-worker-0": [min(seconds, LIMIT_S)]}
        await cluster.backend.close()

    asyncio.run(story())


@pytest.mark.parametrize(("seconds", "given"), [(30, None), (LONGEST, LIMIT_S)])
def test_an_external_gang_has_no_more_grace_than_the_policy_permits(seconds: int, given: int | None) -> None:
    async def story() -> None:
        cluster = Cluster("n1", api=Removals())
        await cluster.lead()
        pod = msgspec.to_builtins(cluster.put_pod("web", 1, scheduler="windlass"))
        pod["metadata"]["resourceVersion"] = cluster._version()
        pod["spec"]["terminationGracePeriodSeconds"] = seconds
        cluster.backend.pods.learn(msgspec.convert(pod, Pod))
        await cluster.run()
        started(cluster, "web")
        await cluster.run(2)
        await preempt(cluster, next(iter(cluster.backend.external._index)).id)
        assert cluster.api.graces == {"web": [given]}
        await cluster.backend.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("at", "grace"),
    [
        pytest.param("2094-01-01T00:00:00Z", LONGEST, id="deleted by its user with a longer grace"),
        # the API server was killed between the two writes of an earlier leader's request
        pytest.param("2026-01-01T00:00:00Z", 0, id="marked and not removed"),
    ],
)
def test_a_pod_whose_deletion_does_not_end_in_time_is_deleted_again_when_its_job_is_stopped(
    at: str, grace: int
) -> None:
    async def story() -> None:
        cluster = Cluster("n1", api=Removals())
        await cluster.lead()
        cluster.put_job(nodes=1, gpus=1)
        await cluster.run()
        started(cluster, "digits-worker-0")
        await cluster.run(2)
        started(cluster, "digits-worker-0", deletionTimestamp=at, deletionGracePeriodSeconds=grace)
        await cluster.run(2)
        await preempt(cluster, "ml/digits")
        assert cluster.api.graces == {"digits-worker-0": [cluster.controller.states["ml/digits"].job.grace // 1000]}
        await cluster.backend.close()

    asyncio.run(story())


def test_a_shorter_grace_is_left_as_it_is() -> None:
    def pod(spec: int | None, deleted: int | None = None) -> Pod:
        about: dict[str, Any] = {"namespace": "ml", "name": "x", "uid": "u", "resourceVersion": "1"}
        if deleted is not None:
            about |= {"deletionTimestamp": "x", "deletionGracePeriodSeconds": deleted}
        return msgspec.convert({"metadata": about, "spec": {"terminationGracePeriodSeconds": spec}}, Pod)

    assert [limited_grace(pod(each), 30) for each in (None, 0, 30, 31)] == [None, None, None, 30]
    assert [is_leaving_within(pod(30, each), 30) for each in (None, 0, 30, 31)] == [False, False, True, False]


class GuardedByBudget(Removals):
    """A disruption budget forbids each eviction."""

    async def evict(self, *_about: Any, **_: Any) -> None:
        raise ApiError(429, "TooManyRequests", "web-pdb", causes=({"reason": "DisruptionBudget"},))


@pytest.mark.parametrize("reason", ["it has a lower priority", f"{BORROWED} lender asks for"])
def test_a_disruption_budget_protects_from_priority_and_keeps_no_lent_quota(reason: str) -> None:
    async def story() -> None:
        cluster = Cluster("n1", api=GuardedByBudget())
        cluster.backend._executor.deletion.eviction_timeout_s = 0.01
        await cluster.lead()
        cluster.put_pod("web", 1, scheduler="windlass")
        await cluster.run()
        started(cluster, "web")
        await cluster.run(2)
        gang = next(iter(cluster.backend.external._index)).id
        cluster.backend.inbox.put(JobEvent(gang, Preempt(f"for ml/other: {reason}")))
        await cluster.run(8)
        is_reclaimed = BORROWED in reason
        assert cluster.api.deleted == (["web"] if is_reclaimed else [])
        assert (cluster.status(gang).reason == "PreemptionRefused") is not is_reclaimed
        await asyncio.sleep(0.6)
        assert [event["involvedObject"]["name"] for event in cluster.api.events] == (["web"] if is_reclaimed else [])
        await cluster.backend.close()

    asyncio.run(story())
