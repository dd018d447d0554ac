"""Jobs in queues of Kueue: on hold without it and before their admission, on the nodes of their flavor after it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from recorded_api import Cluster

from windlass.backends.kubernetes.client.object_cache import Change
from windlass.backends.kubernetes.kueue.workload_object import workload_name
from windlass.core.model.reasons import Reason
from windlass.core.model.status import Phase

JOB = "ml/digits"
LABELS = {"kueue.x-k8s.io/queue-name": "research"}


async def led_cluster(*, is_served: bool = True) -> Cluster:
    cluster = Cluster("n1")
    cluster.backend.kueue.is_served = is_served
    await cluster.lead()
    cluster.put_job(gpus=2, labels=LABELS)
    await cluster.run(3)
    return cluster


def see(cluster: Cluster, conditions: Mapping[str, str], admission: dict[str, Any] | None = None) -> None:
    """The Workload of the job has these conditions now."""
    gang = cluster.backend.jobs.get(JOB)
    assert gang is not None
    found = [{"type": name, "status": state, "message": f"{name} is {state}"} for name, state in conditions.items()]
    about = {"name": workload_name(gang.parsed), "namespace": "ml", "uid": "w", "resourceVersion": "5"}
    workload = {"metadata": about, "status": {"conditions": found, "admission": admission}}
    cluster.backend.kueue.see_workloads([Change("modified", workload)])


@pytest.mark.parametrize(("priority", "made"), [(0, ["Workload"]), (100, [])])
def test_only_a_job_that_its_queue_of_windlass_accepts_gets_a_workload(priority: int, made: list[str]) -> None:
    async def story() -> None:
        cluster = Cluster("n1")
        kinds = list[str]()

        async def note(_resource: object, body: dict[str, Any]) -> dict[str, Any]:
            kinds.append(body["kind"])
            return body

        cluster.api.create = note  # type: ignore[method-assign]
        cluster.backend.kueue.is_served = True
        await cluster.lead()
        cluster.put_job(gpus=2, labels=LABELS, priority=priority)
        await cluster.run(12)
        assert [kind for kind in kinds if kind == "Workload"] == made
        await cluster.backend.close()

    asyncio.run(story())


def test_a_job_enters_the_queue_of_kueue_at_its_begin_time() -> None:
    async def story() -> None:
        cluster = Cluster("n1")
        kinds = list[str]()

        async def note(_resource: object, body: dict[str, Any]) -> dict[str, Any]:
            kinds.append(body["kind"])
            return body

        cluster.api.create = note  # type: ignore[method-assign]
        cluster.backend.kueue.is_served = True
        await cluster.lead()
        cluster.put_job(gpus=2, labels=LABELS, begin="2099-11-28T08:00Z")
        await cluster.run(12)
        assert "Workload" not in kinds
        gang = cluster.backend.jobs.get(JOB)
        assert gang is not None
        assert gang.job.hold.endswith("it enters the queue at its begin time 2099-11-28 08:00 UTC")
        cluster.now = gang.job.begin or 0
        cluster.backend.kueue.mark(JOB)
        await cluster.run(12)
        assert kinds.count("Workload") == 1
        await cluster.backend.close()

    asyncio.run(story())


@pytest.mark.parametrize("labels", [{}, LABELS], ids=["without Kueue", "in a queue of Kueue"])
def test_nothing_is_kept_of_a_deleted_job_until_its_begin_time(
    labels: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        alarms = list[asyncio.TimerHandle]()
        loop, cluster = asyncio.get_running_loop(), Cluster("n1")
        set_alarm = loop.call_later

        def note(delay: float, *what: Any, **how: Any) -> asyncio.TimerHandle:
            alarm = set_alarm(delay, *what, **how)
            alarms.extend([alarm] if delay > 10**6 else [])
            return alarm

        monkeypatch.setattr(loop, "call_later", note)
        cluster.backend.kueue.is_served = True
        await cluster.lead()
        cluster.put_job(gpus=2, labels=labels, begin="9999-11-28T08:00Z")
        await cluster.run(12)
        gang = cluster.backend.jobs.get(JOB)
        assert gang is not None
        assert alarms if labels else cluster.backend.changed.due == gang.job.begin
        cluster.backend.job_reader.delete(gang.reference.owner_key)
        await cluster.run(12)
        assert cluster.backend.jobs.get(JOB) is None
        assert cluster.backend.changed.due is None
        assert all(alarm.cancelled() for alarm in alarms)
        await cluster.backend.close()

    asyncio.run(story())


def test_a_job_in_a_queue_of_kueue_waits_where_there_is_no_kueue() -> None:
    async def story() -> None:
        cluster = await led_cluster(is_served=False)
        verdict = cluster.controller.plan.verdicts[JOB]
        assert verdict.reason is Reason.ON_HOLD
        assert "which this cluster lacks: remove the label" in verdict.message
        await cluster.backend.close()

    asyncio.run(story())


def test_a_job_that_waits_for_kueue_enters_its_queue_once_kueue_is_installed() -> None:
    async def story() -> None:
        cluster = await led_cluster(is_served=False)
        cluster.backend.kueue.see_served(is_served=True)
        await cluster.run(2)
        assert "Kueue has not admitted it in the queue research" in cluster.controller.plan.verdicts[JOB].message
        await cluster.backend.close()

    asyncio.run(story())


def test_a_job_that_waits_for_kueue_says_that_kueue_was_removed() -> None:
    async def story() -> None:
        cluster = await led_cluster()
        cluster.backend.kueue.see_served(is_served=False)
        await cluster.run(2)
        assert "which this cluster lacks: remove the label" in cluster.controller.plan.verdicts[JOB].message
        await cluster.backend.close()

    asyncio.run(story())


ADMITTED = {"QuotaReserved": "True", "Admitted": "True"}


def delete_workload(cluster: Cluster) -> None:
    gang = cluster.backend.jobs.get(JOB)
    assert gang is not None
    gone = {"metadata": {"name": workload_name(gang.parsed), "namespace": "ml", "uid": "w", "resourceVersion": "6"}}
    cluster.backend.kueue.see_workloads([Change("deleted", gone)])


def lose_quota(cluster: Cluster) -> None:
    see(cluster, {"QuotaReserved": "False"})


@pytest.mark.parametrize("loses", [delete_workload, lose_quota])
def test_a_running_job_that_loses_its_quota_stops_and_waits_again(loses: Callable[[Cluster], None]) -> None:
    async def story() -> None:
        cluster = await led_cluster()
        see(cluster, ADMITTED, {"podSetAssignments": []})
        await cluster.run(4)
        assert cluster.status(JOB).phase is not Phase.QUEUED
        loses(cluster)
        await cluster.run(2)
        for pod in list(cluster.backend.pods.all()):
            cluster.remove_pod(pod)
        await cluster.run(6)
        assert cluster.status(JOB).phase is Phase.QUEUED
        assert "Kueue has not admitted it" in cluster.controller.plan.verdicts[JOB].message
        await cluster.backend.close()

    asyncio.run(story())


def test_a_job_waits_for_kueue_and_starts_once_it_is_admitted() -> None:
    async def story() -> None:
        cluster = await led_cluster()
        see(cluster, {"QuotaReserved": "False"})
        await cluster.run(2)
        hold = "Kueue has not admitted it in the queue research: QuotaReserved is False"
        assert cluster.controller.plan.verdicts[JOB].message == hold
        see(cluster, {"QuotaReserved": "True", "Admitted": "True"}, {"podSetAssignments": []})
        await cluster.run(4)
        assert cluster.status(JOB).phase is not Phase.QUEUED
        await cluster.backend.close()

    asyncio.run(story())


def test_an_evicted_job_stops_and_waits_again() -> None:
    async def story() -> None:
        cluster = await led_cluster()
        admitted = {"QuotaReserved": "True", "Admitted": "True"}
        see(cluster, admitted, {"podSetAssignments": []})
        await cluster.run(4)
        see(cluster, {**admitted, "Evicted": "True"}, {"podSetAssignments": []})
        await cluster.run(2)
        for pod in list(cluster.backend.pods.all()):
            cluster.remove_pod(pod)
        await cluster.run(6)
        assert cluster.status(JOB).phase is Phase.QUEUED
        assert cluster.controller.plan.verdicts[JOB].message.endswith("Evicted is True")
        await cluster.backend.close()

    asyncio.run(story())
