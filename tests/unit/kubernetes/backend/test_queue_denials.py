"""Jobs that name a queue of others: new ones wait, known ones stay out of it, under every order of events."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from recorded_api import TRAINING, Cluster

from windlass.backends.kubernetes.gangs import stored_state
from windlass.backends.kubernetes.gangs.stored_state import Stored
from windlass.backends.kubernetes.status.status_writer import status_of
from windlass.core.model.status import Phase, Placement, Status

JOB = "ml/digits"
RUNNING = Status(phase=Phase.RUNNING, generation=1, is_gone=False, placement=Placement({"worker": ("n1",)}))
TEAM_B = {"namespaceSelector": {"matchLabels": {"team": "b"}}}


def put_queue(cluster: Cluster, **spec: Any) -> None:
    """Declares or changes the queue team-b."""
    about = {"name": "team-b", "uid": "q", "resourceVersion": "1"}
    cluster.backend.cluster.queues["team-b"] = {"metadata": about, "spec": spec}
    cluster.backend.cluster.declare()
    cluster.backend.monitor.check()


def tell(story: Callable[[Cluster], Awaitable[None]], *, has_namespace: bool = True) -> None:
    async def told() -> None:
        cluster = Cluster("n1", has_namespace=has_namespace)
        try:
            await story(cluster)
        finally:
            await cluster.backend.close()

    asyncio.run(told())


def test_a_new_job_waits_until_the_queue_is_open_to_its_namespace() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.lead()
        put_queue(cluster, **TEAM_B)
        cluster.put_job(queue="team-b")
        await cluster.run(2)
        assert JOB not in cluster.controller.states
        created, refusal = cluster.api.statuses["digits"]["conditions"]
        assert (created["type"], created["status"]) == ("Created", "True")
        assert (refusal["type"], refusal["status"]) == ("Accepted", "False")
        assert refusal["message"].startswith("the queue team-b is closed to the namespace ml: ")
        cluster.put_namespace(team="b")
        await cluster.run(2)
        assert cluster.controller.states[JOB].job.queue == "team-b"

    tell(story)


def test_a_job_without_a_queue_waits_until_its_namespace_is_listed() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.lead()
        cluster.put_job(gpus=1)
        await cluster.run()
        assert JOB not in cluster.controller.states
        assert cluster.api.bound == {}
        assert cluster.api.statuses == {}
        assert cluster.backend.jobs.get(JOB).status.message == "the namespace ml is not listed yet"
        cluster.put_namespace(**{"windlass.dev/queue": "team-b"})
        put_queue(cluster)
        await cluster.run()
        assert cluster.controller.states[JOB].job.queue == "team-b"
        assert cluster.api.bound == {"digits-worker-0": "n1"}

    tell(story, has_namespace=False)


def test_a_pod_waits_until_its_namespace_is_listed() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.lead()
        cluster.put_pod("a", 1, scheduler="windlass")
        await cluster.run()
        assert (cluster.controller.states, cluster.api.bound) == ({}, {})
        cluster.put_namespace(**{"windlass.dev/queue": "team-b"})
        put_queue(cluster)
        await cluster.run()
        (state,) = cluster.controller.states.values()
        assert state.job.queue == "team-b"
        assert cluster.api.bound == {"a": "n1"}

    tell(story, has_namespace=False)


def test_a_job_that_waits_for_a_queue_leaves_it_in_the_turn_in_which_it_appears_closed() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.lead()
        cluster.put_job(queue="team-b")
        await cluster.run(2)
        assert cluster.controller.states[JOB].job.queue == "team-b"
        assert cluster.status(JOB).phase is Phase.QUEUED  # there is no such queue
        put_queue(cluster, **TEAM_B)
        cluster.backend.monitor.report()  # as a binding check does, before changes have settled
        await cluster.decide()
        assert "team-b" in cluster.controller.snapshot().queues
        assert cluster.controller.states[JOB].job.queue == "default"

    tell(story)


def test_a_leader_that_takes_over_does_not_account_a_job_to_a_closed_queue() -> None:
    async def story(cluster: Cluster) -> None:
        about = {"name": "digits", "namespace": "ml", "uid": "u", "resourceVersion": "1", "generation": 2}
        spec = {"image": "x", "command": "torchrun train.py", "gpus": 2, "queue": "team-b", "priority": 1_000_000_000}
        status = {stored_state.FIELD: stored_state.to_patch(Stored(5, 3, RUNNING))}
        manifest = {"apiVersion": TRAINING.api_version, "kind": TRAINING.kind, "metadata": about, "spec": spec}
        put_queue(cluster, **TEAM_B)
        cluster.backend.job_reader.update(TRAINING, {**manifest, "status": status})
        await cluster.lead()
        job = cluster.controller.states[JOB].job
        assert (job.queue, job.priority) == ("default", 0)

    tell(story)


def test_a_queue_that_is_closed_again_loses_the_jobs_that_wait_in_it() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.lead()
        put_queue(cluster, namespaceSelector={})
        cluster.put_job(queue="team-b", nodes=2)  # one node is not enough
        await cluster.run(2)
        assert cluster.controller.states[JOB].job.queue == "team-b"
        put_queue(cluster, **TEAM_B)
        await cluster.run(3)
        assert cluster.controller.states[JOB].job.queue == "default"
        denied = [each for each in cluster.api.statuses["digits"]["conditions"] if each["type"] == "Accepted"]
        assert [(each["status"], each["reason"]) for each in denied] == [("False", "Denied")]
        assert denied[0]["message"].endswith("; until then its queue is default and its priority 0")
        cluster.put_namespace(team="b")
        await cluster.run(3)
        assert cluster.controller.states[JOB].job.queue == "team-b"
        gang = cluster.backend.jobs.get(JOB)
        assert gang is not None
        shown = status_of(gang, gang.status, cluster.now)["conditions"]  # written at most every two seconds
        assert [each for each in shown if each["type"] == "Accepted"] == []

    tell(story)


def test_an_external_gang_waits_until_its_queue_is_open_and_has_the_user_of_its_namespace() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.lead()
        put_queue(cluster, **TEAM_B)
        cluster.put_pod("stray", 1, scheduler="windlass", labels={"windlass.dev/queue": "team-b"})
        await cluster.run(2)
        assert not cluster.controller.states
        cluster.put_namespace(team="b")
        await cluster.run(2)
        (state,) = cluster.controller.states.values()
        assert (state.job.queue, state.job.user) == ("team-b", "namespace:ml")

    tell(story)
