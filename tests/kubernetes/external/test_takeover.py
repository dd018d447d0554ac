"""Schedulers killed between two bindings: the next one completes the gang, and counts no pod twice."""

from __future__ import annotations

from collections import Counter

import pytest
from planes.fault_proxy import FaultProxy, Rule

from windlass.controlplane.cluster import ControlPlane

from . import other_kinds as kinds
from .rig import Rig
from .test_external_gangs import play

pytestmark = pytest.mark.controllers


def test_a_new_scheduler_knows_running_and_waiting_gangs(plane: ControlPlane) -> None:
    async def story(on: Rig) -> None:
        first = await on.scheduler()
        await on.api.post(kinds.COSCHEDULING_GROUPS, kinds.coscheduling("g", 2))
        await on.make(*(kinds.coscheduled("g", f"g-{n}", gpus=2) for n in range(2)))
        await on.until_placed("g-0", "g-1")
        await on.make(kinds.pod("waits", gpus=3))
        await on.why("waits")
        await on.close(first)
        second = await on.scheduler()
        assert {job_id: state.status.phase.value for job_id, state in second.controller.states.items()} == {
            "default/podgroup/g": "Running",
            "default/pod/waits": "Queued",
        }
        await on.nodes.end("default", "g-0")
        await on.nodes.end("default", "g-1")
        await on.until_placed("waits")

    play(plane, story, nodes=1)


async def bound_in_part(on: Rig, unreachable: str) -> None:
    """A gang of four, and a scheduler that is killed before it binds the given pods."""
    async with FaultProxy(on.plane, [Rule(0, "POST", f"/g-[{unreachable}]/binding")]) as proxy:
        first = await on.scheduler(proxy.url)
        await on.api.post(kinds.COSCHEDULING_GROUPS, kinds.coscheduling("g", 4))
        await on.make(*(kinds.coscheduled("g", f"g-{n}") for n in range(4)))
        await on.until_placed(*(f"g-{n}" for n in range(4) if str(n) not in unreachable))
        await on.close(first)
    assert len(await on.places()) == 4 - len(unreachable)


@pytest.mark.parametrize("unreachable", ["3", "123"])
def test_a_partially_bound_gang_is_completed_on_its_chosen_nodes(plane: ControlPlane, unreachable: str) -> None:
    async def story(on: Rig) -> None:
        await bound_in_part(on, unreachable)
        await on.make(kinds.pod("later", gpus=1))  # it may not use the capacity of the decision
        second = await on.scheduler()
        places = await on.until_placed("g-0", "g-1", "g-2", "g-3")
        assert set(places) == {"g-0", "g-1", "g-2", "g-3"}
        assert "default/podgroup/g" in second.controller.states

    play(plane, story, nodes=2, gpus=2)


async def uids(on: Rig) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in (await on.pods()).items()}


def test_bound_pods_that_nothing_creates_again_stay_while_the_others_wait_for_room(plane: ControlPlane) -> None:
    async def story(on: Rig) -> None:
        await bound_in_part(on, "23")
        await on.api.delete(f"{kinds.PODS}/g-3", gracePeriodSeconds=0)
        await on.make(kinds.coscheduled("g", "g-3"))
        places = await on.places()
        free = [node for node in ("n1", "n2") for _ in range(2 - [*places.values()].count(node))]
        taken = [kinds.pod(f"t-{n}", schedulerName="another", nodeName=node) for n, node in enumerate(free)]
        await on.make(*taken)
        made = await uids(on)
        await on.scheduler()
        assert "gpu" in await on.why("g-2")
        assert (await on.places()).keys() == {"g-0", "g-1", "t-0", "t-1"}
        for each in taken:
            await on.api.delete(f"{kinds.PODS}/{each['metadata']['name']}", gracePeriodSeconds=0)
        await on.until_placed(*(f"g-{n}" for n in range(4)))
        assert (await uids(on)).items() <= made.items()

    play(plane, story, nodes=2, gpus=2)


def test_a_gang_with_a_pod_that_cannot_be_bound_keeps_those_that_are(plane: ControlPlane) -> None:
    async def story(on: Rig) -> None:
        async with FaultProxy(on.plane, [Rule(422, "POST", "/g-2/binding", times=1)]) as proxy:
            scheduler = await on.scheduler(proxy.url)
            await on.api.post(kinds.COSCHEDULING_GROUPS, kinds.coscheduling("g", 3))
            await on.make(*(kinds.coscheduled("g", f"g-{n}") for n in range(3)))
            made = await uids(on)
            await on.until_placed("g-0", "g-1", "g-2")
            assert await uids(on) == made
            assert any(each.startswith("default/podgroup/g/") for each in scheduler.controller.states)

    play(plane, story)


def test_a_gang_outlasts_denials_of_an_api_server_that_restarts(plane: ControlPlane) -> None:
    """It answers 409 to a binding while etcd is away, and 403 until it has read the roles."""

    async def story(on: Rig) -> None:
        denials = [Rule(409, "POST", "/g-1/binding", times=1), Rule(403, "POST", "/g-2/binding", times=1)]
        async with FaultProxy(on.plane, denials) as proxy:
            await on.scheduler(proxy.url)
            await on.api.post(kinds.COSCHEDULING_GROUPS, kinds.coscheduling("g", 3))
            await on.make(*(kinds.coscheduled("g", f"g-{n}") for n in range(3)))
            made = await uids(on)
            await on.until_placed("g-0", "g-1", "g-2")
            assert await uids(on) == made
            assert [each.applied for each in denials] == [1, 1]

    play(plane, story)


def test_no_node_has_more_pods_than_its_capacity(plane: ControlPlane) -> None:
    async def story(on: Rig) -> None:
        first = await on.scheduler()
        await on.make(*(kinds.pod(f"p-{n}") for n in range(12)))

        async def some() -> bool:
            return len(await on.places()) >= 3

        await on.until(some)
        await on.close(first)
        await on.scheduler()

        async def full() -> bool:
            return len(await on.places()) == 8

        await on.until(full)
        assert Counter((await on.places()).values()) == {"n1": 4, "n2": 4}

    play(plane, story)
