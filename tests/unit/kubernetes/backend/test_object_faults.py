"""Objects of other writers that the backend cannot use: each is set aside by itself, and everything else continues."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
import recorded_api
from recorded_api import Cluster

from windlass.backends.kubernetes.client.object_cache import Change
from windlass.backends.kubernetes.client.object_reference import ObjectReference
from windlass.backends.kubernetes.client.resources import CLAIMS, NAMESPACES, NODES, PODS, Resource
from windlass.backends.kubernetes.cluster import cluster_view
from windlass.backends.kubernetes.cluster.object_faults import ObjectFaults
from windlass.backends.kubernetes.external import external_binder, gang_gathering, groups
from windlass.backends.kubernetes.external.external_gangs import ExternalGangs
from windlass.backends.kubernetes.external.gang_control import ExternalGangControl
from windlass.backends.kubernetes.jobs.gang_controller import GangController
from windlass.backends.kubernetes.jobs.run_control import RunControl
from windlass.backends.kubernetes.pods.pod_executor import PodExecutor
from windlass.backends.kubernetes.status import state_writes
from windlass.backends.kubernetes.watches import contained
from windlass.controller import controller as controller_module
from windlass.controller import job_faults
from windlass.controller.job_ledger import JobLedger
from windlass.core.lifecycle import state_machine

GANG, SIZE = "windlass.dev/gang", "windlass.dev/gang-size"
NUMBERS = [
    "0" * 8 + "1" * 4_301,
    "1" * 4_309,
    "000000001" + "0" * 4_300,
    "9" * 19,
    "-1",
    "1e9",
    "²",
    "٣",
    "0x10",
    "1_0",
    " 1",
    "",
]


def play(story: Callable[[Cluster], Awaitable[None]]) -> None:
    """Runs a story on a cluster with one node, which leads."""

    async def lead(cluster: Cluster) -> None:
        await cluster.lead()
        await story(cluster)

    recorded_api.play(lead, "n1")


@pytest.mark.parametrize("size", NUMBERS, ids=[f"{each[:9]} of {len(each)}" for each in NUMBERS])
def test_a_gang_size_of_any_length_holds_up_its_own_pods_only(size: str) -> None:
    async def story(on: Cluster) -> None:
        on.put_pod("odd", 1, scheduler="windlass", labels={GANG: "g"}, annotations={SIZE: size})
        on.put_pod("healthy", 1, scheduler="windlass")
        await on.run()
        assert on.api.bound == {"healthy": "n1"}

    play(story)


class Broken(Exception):  # noqa: N818 - a state of affairs
    """An exception that nothing foresees."""


def break_for(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, is_odd: Callable[..., bool]) -> list[bool]:
    """Makes a function raise for the objects that `is_odd` picks, while the returned list is not empty."""
    whole, broken = getattr(owner, name), [True]

    def partly(*given: Any, **more: Any) -> Any:
        if broken and is_odd(*given, **more):
            raise Broken("nobody foresaw this")
        return whole(*given, **more)

    monkeypatch.setattr(owner, name, partly)
    return broken


async def pass_time(on: Cluster, seconds: int) -> None:
    for _ in range(seconds):
        on.now += 1_000
        await on.run(1)


def is_odd_pod(pod: Any, *_: Any, **__: Any) -> bool:
    return bool(pod.metadata.name == "odd")


@pytest.mark.parametrize(
    ("owner", "name", "is_odd"),
    [
        (groups, "membership", is_odd_pod),
        (gang_gathering.gang_assembly, "assemble_gangs", lambda member, *_: member.name == "odd"),
        (gang_gathering, "fitted_job", lambda gang, *_: gang.name == "odd"),
        (ExternalGangControl, "process", lambda _self, gang: gang.name == "odd"),
        (ExternalGangControl, "launch", lambda _self, job_id, *_: job_id.endswith("odd")),
        (ExternalGangs, "_admit", lambda _self, gang: gang.name == "odd"),
    ],
    ids=["reading", "gathering", "resolving", "running", "performing", "admitting"],
)
def test_an_unforeseen_error_of_one_external_gang_is_its_own_and_ends_with_a_retry(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, is_odd: Callable[..., bool]
) -> None:
    broken = break_for(monkeypatch, owner, name, is_odd)

    async def story(on: Cluster) -> None:
        on.put_pod("odd", 1, scheduler="windlass")
        on.put_pod("healthy", 1, scheduler="windlass")
        await on.run()
        assert on.api.bound["healthy"] == "n1"
        assert on.backend.faults.counts["Pod"] >= 1
        assert [event["involvedObject"]["name"] for event in on.api.events] == ["odd"]
        broken.clear()
        await pass_time(on, 20)
        assert on.api.bound == {"healthy": "n1", "odd": "n1"}
        assert len(on.backend.faults) == 0

    play(story)


@pytest.mark.parametrize(
    ("owner", "name"),
    [(RunControl, "process"), (RunControl, "_set_alarm"), (GangController, "launch"), (state_writes, "write_state")],
    ids=["running", "setting its alarm", "performing", "writing"],
)
def test_an_unforeseen_error_of_one_job_is_its_own(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    def is_digits(*given: Any, **_: Any) -> bool:
        return any(getattr(each, "id", each) == "ml/digits" for each in given)

    broken = break_for(monkeypatch, owner, name, is_digits)

    async def story(on: Cluster) -> None:
        running = asyncio.create_task(controller_module.run(on.controller, on.backend, on_trouble=lambda _text: None))
        on.put_job(nodes=1, gpus=1)
        on.put_pod("healthy", 1, scheduler="windlass")
        for _ in range(10):
            on.now += 1_000
            on.backend.wake()
            await asyncio.sleep(0.01)
        assert on.api.bound["healthy"] == "n1"
        broken.clear()
        for _ in range(100):
            on.now += 1_000
            on.backend.wake()
            await asyncio.sleep(0.005)
        assert set(on.api.bound) == {"healthy", "digits-worker-0"}, on.status("ml/digits")
        assert not running.done()
        running.cancel()

    play(story)


def test_a_node_that_cannot_be_converted_is_left_out_until_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = break_for(monkeypatch, cluster_view, "node", lambda seen, *_: seen.metadata.name == "n2")

    async def story(on: Cluster) -> None:
        on.put_node("n2")
        await on.run()
        assert [node.name for node in on.controller.snapshot().table.nodes] == ["n1"]
        assert on.backend.faults.counts["Node"] == 1
        broken.clear()
        await pass_time(on, 3)
        assert [node.name for node in on.controller.snapshot().table.nodes] == ["n1", "n2"]

    play(story)


@pytest.mark.parametrize("kind", [PODS, NODES, CLAIMS, NAMESPACES], ids=lambda each: each.kind)
def test_a_change_on_which_a_handler_raises_keeps_no_other_change_from_being_applied(kind: Resource) -> None:
    applied: list[str] = []

    def apply(changes: Sequence[Change[dict[str, Any]]]) -> None:
        for change in changes:
            if change.object["metadata"]["name"] == "odd":
                raise Broken
            applied.append(change.object["metadata"]["name"])

    async def story(on: Cluster) -> None:
        about = [{"metadata": {"name": each, "uid": each, "resourceVersion": "1"}} for each in ("odd", "a", "b")]
        contained(on.backend, kind, apply)([Change("added", each) for each in about])
        assert applied == ["a", "b"]
        assert on.backend.faults.counts == {kind.kind: 1}

    play(story)


def test_faults_are_repeated_with_backoff_and_reported_at_a_bounded_rate() -> None:
    now, reports, tries = [0], list[str](), list[int]()
    faults = ObjectFaults(lambda: now[0])
    faults.report = lambda about, _sentence: reports.append(about.name)
    odd = ObjectReference(PODS, "ml", "odd", "u")

    def work() -> None:
        with faults.contain(odd, "read", work):
            tries.append(now[0])
            raise Broken

    work()
    while now[0] < 3_600_000:
        assert faults.due is not None
        now[0] = faults.due
        faults.retry_due(now[0])
    gaps = [after - before for before, after in itertools.pairwise(tries)]
    assert gaps[:5] == [1_000, 2_000, 4_000, 8_000, 16_000]
    assert max(gaps) == 300_000
    assert 5 <= len(reports) <= 7
    for number in range(1_000):
        with faults.contain(ObjectReference(PODS, "ml", f"p{number}", "u"), "read", work):
            raise Broken
    assert len(reports) < 70
    assert faults.counts["Pod"] == len(tries) + 1_000


def test_a_cancellation_is_not_contained() -> None:
    faults = ObjectFaults(lambda: 0)
    with (
        pytest.raises(asyncio.CancelledError),
        faults.contain(ObjectReference(PODS, "ml", "odd", "u"), "read", lambda: None),
    ):
        raise asyncio.CancelledError
    assert len(faults) == 0


@pytest.mark.parametrize(
    ("owner", "name", "is_odd"),
    [
        (controller_module, "schedule", lambda snapshot, _now: any("odd" in gang.id for gang in snapshot.pending)),
        (state_machine, "step", lambda state, *_: "odd" in state.id),
        (JobLedger, "update", lambda _self, state, *_: "odd" in state.id),
        (controller_module, "create_state", lambda job_id, *_: "odd" in job_id),
    ],
    ids=["scheduling", "lifecycle", "ledger", "arrival"],
)
def test_a_job_that_makes_a_turn_raise_is_set_aside_and_takes_part_again_later(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, is_odd: Callable[..., bool]
) -> None:
    broken = break_for(monkeypatch, owner, name, is_odd)
    if name == "schedule":
        monkeypatch.setattr(job_faults, "schedule", getattr(owner, name))

    async def story(on: Cluster) -> None:
        on.put_pod("odd", 1, scheduler="windlass")
        on.put_pod("healthy", 1, scheduler="windlass")
        await on.run()
        assert on.api.bound == {"healthy": "n1"}
        assert on.backend.faults.counts["Pod"] >= 1
        broken.clear()
        await pass_time(on, 10)
        assert on.api.bound == {"healthy": "n1", "odd": "n1"}

    play(story)


def test_an_error_that_no_job_causes_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise Broken

    async def story(on: Cluster) -> None:
        monkeypatch.setattr(controller_module, "schedule", fail)
        on.put_pod("healthy", 1, scheduler="windlass")
        with pytest.raises(Broken):
            await on.run()

    play(story)


def test_an_unforeseen_error_while_a_gang_is_bound_frees_its_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = break_for(monkeypatch, external_binder, "_note", lambda gang, _allocation: gang.name == "odd")

    async def story(on: Cluster) -> None:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "uid-j", "controller": True}
        about = {"labels": {GANG: "odd"}, "annotations": {SIZE: "2"}, "ownerReferences": [owner]}
        pods = {name: on.put_pod(name, 1, scheduler="windlass", **about) for name in ("odd-0", "odd-1")}
        await on.run()
        assert on.api.deleted
        for name in set(on.api.deleted):
            on.remove_pod(pods[name])
        await on.run()
        on.put_pod("healthy", 1, scheduler="windlass")
        await on.run()
        assert on.api.bound["healthy"] == "n1"
        assert broken

    play(story)


def test_an_unforeseen_error_while_a_job_is_started_is_its_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = break_for(monkeypatch, PodExecutor, "members", lambda _self, gang, *_: gang.id == "ml/digits")

    async def story(on: Cluster) -> None:
        on.put_job(nodes=1, gpus=2)
        await on.run(3)
        assert on.api.bound == {}
        broken.clear()
        await pass_time(on, 60)
        assert list(on.api.bound.values()) == ["n1"]

    play(story)
