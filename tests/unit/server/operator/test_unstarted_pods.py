"""Events of pods that do not start: of which pods they are read, how often, and what becomes of errors."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from virtual_loop import run_in_virtual_time

from windlass.backends.errors import BackendError
from windlass.backends.kubernetes.client.objects import (
    ContainerState,
    ContainerStatus,
    Metadata,
    Pod,
    PodSpec,
    PodStatus,
    Waiting,
)
from windlass.backends.kubernetes.client.pod_events import PodEvent
from windlass.backends.kubernetes.gangs.gang import StatusNotes
from windlass.backends.kubernetes.gangs.run import Run, Slot
from windlass.core.model.diagnosed_cause import DiagnosedCause
from windlass.core.model.status import Phase, Status
from windlass.server.operator.unstarted_pods import UnstartedPods

AFTER_S = 30.0
MOUNT = PodEvent("Warning", "FailedMount", "mount failed", last_timestamp="2026-01-01T00:00:00Z")


def pod(uid: str, phase: str = "Pending", waits: str = "") -> Pod:
    state = ContainerState(waiting=Waiting(waits) if waits else None)
    status = PodStatus(phase=phase, container_statuses=(ContainerStatus("main", state),))
    return Pod(Metadata(uid, uid, "1", "team"), PodSpec(node_name="n1"), status)


class Cluster:
    """The part of the backend that the reader uses, and the Events of its pods by uid. `asked`: uids in order."""

    def __init__(self) -> None:
        self.gangs: dict[str, Any] = {}
        self.jobs = self
        self.launchers = SimpleNamespace(unended=lambda _owner: [{"metadata": {"uid": "launcher-job"}}])
        self.troubles: list[str] = []
        self.on_trouble = self.troubles.append
        self.events: dict[str, list[PodEvent]] = {}
        self.asked: list[str] = []
        self.error = ""
        self.delays: dict[str, float] = {}

    def __iter__(self) -> Any:
        return iter(self.gangs.values())

    def get(self, job_id: str) -> Any:
        return self.gangs.get(job_id)

    def add(self, name: str, *pods: Pod, members: int = 0, made_by_others: Sequence[int] = ()) -> Any:
        slots = [Slot(number, "worker", number, "n1") for number in range(members or len(pods))]
        run = Run(1, slots, made_by_others=frozenset(made_by_others))
        for number, each in enumerate(pods):
            run.pods.put(each, number)
        about = SimpleNamespace(namespace="team", owner_key=name)
        gang = SimpleNamespace(
            id=name, reference=about, notes=StatusNotes(), run=run, status=Status(phase=Phase.ADMITTED, generation=1)
        )
        self.gangs[name] = gang
        return gang

    async def list_events(self, namespace: str, uid: str) -> Sequence[PodEvent]:
        assert namespace == "team"
        self.asked.append(uid)
        await asyncio.sleep(self.delays.get(uid, 0))
        if self.error:
            raise BackendError(self.error)
        return self.events.get(uid, [])


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def look(cluster: Cluster, *times: float) -> UnstartedPods:
    reader = UnstartedPods(cluster, cluster.list_events, AFTER_S)  # type: ignore[arg-type]

    async def run() -> None:
        for now in times:
            await reader.look(now)

    asyncio.run(run())
    return reader


def test_events_of_unstarted_pods_are_read_once_the_attempt_has_waited(cluster: Cluster) -> None:
    gang = cluster.add("digits", pod("a", "Running"), pod("b"))
    cluster.events["b"] = [MOUNT]
    reader = look(cluster, 5, 34, 35, 50)
    assert cluster.asked == ["b"]
    assert gang.notes.event_obstacle == (1, "b", "volume", "FailedMount: mount failed")
    assert (reader.since("digits", 60), reader.since("other", 60)) == (5, 60)


def test_the_pod_with_the_obstacle_is_read_again_until_it_has_none(cluster: Cluster) -> None:
    gang = cluster.add("digits", *[pod(f"p{number}") for number in range(10)])
    cluster.events["p9"] = [MOUNT]
    look(cluster, 0, 30, 60, 90)
    assert cluster.asked[-1] == "p9"
    assert len(cluster.asked) <= 4 + 4 + 4
    cluster.events.clear()
    look(cluster, 0, 30)
    assert gang.notes.event_obstacle is None
    assert cluster.asked[-5] == "p9", "the pod of the last obstacle first, then others"


def test_few_jobs_are_read_in_a_round_and_those_first_that_waited_longest(cluster: Cluster) -> None:
    for number in range(10):
        cluster.add(f"j{number}", pod(f"p{number}"))
    look(cluster, 0, 30, 32, 34, 36)
    assert sorted(cluster.asked) == sorted(f"p{number}" for number in range(10))
    cluster.asked.clear()
    look(cluster, 0, 30)
    assert len(cluster.asked) == 4


def test_the_job_of_a_launcher_without_a_pod_is_read_too(cluster: Cluster) -> None:
    gang = cluster.add("mpi", pod("worker", "Running"), members=2, made_by_others=[1])
    cluster.events["launcher-job"] = [
        PodEvent("Warning", "FailedCreate", 'admission webhook "deny" denied the request', last_timestamp=None)
    ]
    look(cluster, 0, 30)
    assert (cluster.asked, gang.notes.event_obstacle.topic) == (["launcher-job"], "creation")


def test_a_job_whose_pods_name_the_obstacle_or_that_runs_is_not_read(cluster: Cluster) -> None:
    cluster.add("looping", pod("c", waits="CreateContainerConfigError"))
    cluster.add("no-image", pod("d", waits="ImagePullBackOff"))
    running = cluster.add("running", pod("a"))
    running.status = Status(phase=Phase.RUNNING, generation=1)
    refused = cluster.add("refused", pod("b"))
    refused.notes.creation_error = "exceeded quota"
    look(cluster, 0, 30)
    assert cluster.asked == []


def test_an_attempt_with_the_verdict_of_the_last_leader_is_read_at_once(cluster: Cluster) -> None:
    cluster.add("digits", pod("a")).notes.wait_verdict = DiagnosedCause(1, "a volume", "volume-mount")
    reader = look(cluster, 0)
    assert (cluster.asked, reader.is_unread("digits")) == (["a"], False)
    assert not reader.is_unread("other")


def test_an_error_is_told_once_and_asked_again_later(cluster: Cluster) -> None:
    cluster.add("digits", pod("a"))
    cluster.error = "events is forbidden"
    reader = look(cluster, 0, 30, 32, 60)
    assert cluster.troubles == ["Events about pods of digits cannot be read: events is forbidden"]
    assert (cluster.asked, reader.is_unread("digits")) == (["a", "a"], False)


def test_slow_answers_end_a_round_in_time_and_the_next_one_goes_on(cluster: Cluster) -> None:
    for number in range(4):
        cluster.add(f"j{number}", *[pod(f"p{number}.{index}") for index in range(4)])
        cluster.delays |= {f"p{number}.{index}": 4.0 for index in range(4)}
    last = cluster.add("last", pod("quick"))
    cluster.events["quick"] = [MOUNT]
    reader = UnstartedPods(cluster, cluster.list_events, AFTER_S)  # type: ignore[arg-type]

    async def story() -> None:
        await reader.look(0)
        begin = asyncio.get_running_loop().time()
        await reader.look(30)
        assert asyncio.get_running_loop().time() - begin == 10.0
        assert cluster.troubles == [
            "Events of pods are not read within 10 s: the rest is read in the next round",
        ]
        for now in (32, 34, 36, 38):
            await reader.look(now)
        assert last.notes.event_obstacle is not None
        assert {uid.partition(".")[0] for uid in cluster.asked} == {"p0", "p1", "p2", "p3", "quick"}

    run_in_virtual_time(story())
