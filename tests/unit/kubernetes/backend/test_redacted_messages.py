"""Messages in the objects of one namespace name no job of another one: in statuses, conditions of pods, and events."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from recorded_api import Cluster, RecordedApi

from windlass.backends.kubernetes.client.object_reference import ObjectReference
from windlass.backends.kubernetes.client.resources import JOBS, PODS
from windlass.backends.kubernetes.status.event_correlation import EventRecord
from windlass.backends.kubernetes.status.events import OBJECT_FAULT
from windlass.backends.kubernetes.status.redaction import HIDDEN, MessageRedaction
from windlass.backends.kubernetes.status.refusals import Refusal
from windlass.backends.port import Changes, Transition
from windlass.core.lifecycle.events import Preempt, Resized
from windlass.core.lifecycle.state_machine import step
from windlass.core.model.reasons import Reason, Verdict
from windlass.core.model.status import Placement
from windlass.server.operator.pending_reasons import write_reason

OTHERS = (
    "would fit now, but team-a/secret-model goes first: quota of lab is kept for it",
    "starts when its nodes have been given back, by team-a/secret-model, team-a/pod/x and 3 more",
    "needs 2 GPUs; not preempted for it, as their eviction was refused: team-a/secret-model",
)


class EveryRequest(RecordedApi):
    """Keeps every body that is written, as text."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[str] = []

    async def patch(self, *about: Any, **options: Any) -> Any:
        self.written.append(json.dumps(about[3]))
        return await super().patch(*about, **options)

    async def create(self, *about: Any) -> Any:
        self.written.append(json.dumps(about[1]))
        return await super().create(*about)


def start(*, gpus: int) -> Cluster:
    """A job of namespace `ml` and a pod of `team-a`, on one node with two GPUs."""
    cluster = Cluster("n1", api=EveryRequest())
    cluster.put_pod("secret-model", 1, "n1", namespace="team-a")
    cluster.put_job(nodes=1, gpus=gpus)
    return cluster


def written(cluster: Cluster) -> str:
    assert isinstance(cluster.api, EveryRequest)
    return "\n".join(cluster.api.written)


def test_the_reason_of_a_pending_job_hides_jobs_of_other_namespaces() -> None:
    async def story() -> None:
        cluster = start(gpus=2)
        waiting = cluster.put_pod("waiting", 2, scheduler="windlass")
        await cluster.lead()
        await cluster.run()
        gangs = {"ml/digits", *(each.id for each in cluster.backend.external._index)}
        assert len(gangs) == 2
        for text in OTHERS:
            for gang in gangs:
                write_reason(cluster.backend, gang, Verdict(Reason.WAITING_FOR_QUOTA, f"{text}, ml/mine"))
            notes = cluster.backend.jobs.get("ml/digits").notes
            assert HIDDEN in notes.pending_message
            assert "ml/mine" in notes.pending_message
            await cluster.run(2)
        await asyncio.sleep(1.5)
        assert "team-a" not in written(cluster)
        assert written(cluster).count(HIDDEN) >= 2  # the job and the pod
        assert waiting.metadata.name not in cluster.api.bound
        await cluster.backend.close()

    asyncio.run(story())


def test_the_status_and_the_event_of_a_preempted_job_hide_the_job_that_it_makes_room_for() -> None:
    async def story() -> None:
        cluster = start(gpus=1)
        await cluster.lead()
        await cluster.run()
        before = cluster.controller.states["ml/digits"]
        elsewhere = Placement(dict.fromkeys(before.status.placement.nodes, ("n2",)))
        for event in (
            Resized(elsewhere, "makes room for team-a/secret-model: others of its queue wait"),
            Preempt("for team-a/secret-model: it has a lower priority"),
        ):
            after, _ = step(before, event, cluster.now)
            if isinstance(event, Preempt):
                assert "team-a/secret-model" in after.status.message
                assert "team-a/secret-model" in after.status.last_failure.message
            line = Transition("ml/digits", cluster.now, type(event).__name__, "Running", "Stopping", event.message)
            assert await cluster.backend.commit(Changes((after,), (line,))) == {}
            assert await cluster.backend.commit(Changes((after,))) == {}
        await asyncio.sleep(0.6)
        assert "team-a" not in written(cluster)
        assert f"for {HIDDEN}: it has a lower priority" in written(cluster)
        assert f"makes room for {HIDDEN}" in written(cluster)
        stored = cluster.backend.jobs.get("ml/digits")
        assert stored.takes_known_state()
        assert HIDDEN in stored.status.last_failure.message
        await cluster.backend.close()

    asyncio.run(story())


def test_faults_and_refusals_hide_jobs_of_other_namespaces() -> None:
    async def story() -> None:
        cluster = start(gpus=1)
        await cluster.lead()
        pod = ObjectReference(PODS, "ml", "x", "uid-x")
        text = "holds of GPU 0 what team-a/secret-model holds"
        cluster.backend._events.record(EventRecord(pod, OBJECT_FAULT, "Read", text, cluster.now))
        cluster.backend._refusals.refuse(Refusal(ObjectReference(JOBS, "ml", "y", "uid-y"), {}, text))
        await asyncio.sleep(0.6)
        assert "team-a" not in written(cluster)
        assert written(cluster).count(HIDDEN) == 2
        await cluster.backend.close()

    asyncio.run(story())


def test_only_known_namespaces_are_hidden_and_objects_of_no_namespace_name_none() -> None:
    redaction = MessageRedaction({"team-a", "ml"}.__contains__)
    assert redaction.message("1/2 of nvidia.com/gpu for team-a/x, ml/y", "ml") == (
        f"1/2 of nvidia.com/gpu for {HIDDEN}, ml/y"
    )
    assert redaction.message("for team-a/x, ml/y", "") == f"for {HIDDEN}, {HIDDEN}"
