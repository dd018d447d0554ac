"""Placements that another writer has made stale between the decision and the binding."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from recorded_api import Cluster, play

from windlass.core.lifecycle.commands import Launch, Stop
from windlass.core.model.status import Phase

JOB, GANG = "ml/digits", "ml/pod/ours"


async def until_decided(cluster: Cluster) -> list[Any]:
    """Turns until a gang is to be launched; the launch is not performed yet."""
    for _ in range(50):
        commands = await cluster.decide()
        if any(isinstance(each, Launch) for each in commands):
            return commands
        cluster.backend.perform(commands)
        await asyncio.sleep(0.01)
    raise AssertionError("no gang was launched")


def test_a_gang_whose_gpus_a_foreign_pod_took_is_not_bound_and_is_queued_again():
    async def story(on: Cluster) -> None:
        on.put_job(nodes=2, gpus=2)
        await on.lead()
        commands = await until_decided(on)
        foreign = on.put_pod("theirs", 1, node="n2")
        on.backend.perform(commands)
        await on.run()
        status = on.status(JOB)
        assert on.api.bound == {}
        assert (status.phase, status.infrastructure_failures, status.user_failures) == (Phase.QUEUED, 0, 0)
        assert status.last_failure.reason == "StalePlacement"
        assert status.last_failure.message == "node n2 has 1 gpu left, and 2 are needed"
        on.remove_pod(foreign)
        await on.run()
        assert set(on.api.bound.values()) == {"n1", "n2"}

    play(story, "n1", "n2")


def test_a_gang_whose_node_was_cordoned_starts_on_another_one():
    async def story(on: Cluster) -> None:
        on.put_job(nodes=1, gpus=2)
        await on.lead()
        commands = await until_decided(on)
        (launch,) = (each for each in commands if isinstance(each, Launch))
        (chosen,) = launch.placement.distinct()
        on.put_node(chosen, unschedulable=True)
        on.backend.perform(commands)
        await on.run()
        assert set(on.api.bound.values()) == {"n1", "n2"} - {chosen}
        assert on.status(JOB).infrastructure_failures == 0

    play(story, "n1", "n2")


def test_a_gang_does_not_count_against_itself():
    async def story(on: Cluster) -> None:
        on.put_job(nodes=2, gpus=2)
        await on.lead()
        commands = await until_decided(on)
        on.backend.perform(commands)
        await asyncio.sleep(0.01)
        on.backend.perform([each for each in commands if isinstance(each, Launch)])  # repeated
        await on.run()
        assert set(on.api.bound.values()) == {"n1", "n2"}
        assert on.status(JOB).phase is Phase.ADMITTED

    play(story, "n1", "n2")


def test_a_gang_whose_committed_state_has_no_placement_holds_no_nodes():
    async def story(on: Cluster) -> None:
        on.put_job(nodes=1, gpus=2)
        await on.lead()
        await on.run()
        gang = on.backend.jobs.get(JOB)
        assert gang is not None
        assert gang.run is not None
        assert gang.stored is not None
        placement = gang.run.placement
        gang.stored = replace(gang.stored, status=replace(gang.status, placement=None))
        assert on.backend.monitor.placements.fits("ml/other", gang.job, placement, "n1")

    play(story, "n1")


def test_an_external_gang_whose_gpus_a_foreign_pod_took_waits_in_the_queue_again():
    async def story(on: Cluster) -> None:
        await on.lead()
        on.put_pod("ours", 2, scheduler="windlass")
        commands = await until_decided(on)
        foreign = on.put_pod("theirs", 1, node="n1")
        on.backend.perform(commands)
        await on.run()
        assert on.api.bound == {}
        assert on.api.deleted == []
        assert (on.status(GANG).phase, on.status(GANG).infrastructure_failures) == (Phase.QUEUED, 0)
        on.remove_pod(foreign)
        await on.run()
        assert on.api.bound == {"ours": "n1"}

    play(story, "n1")


def test_a_gang_holds_its_nodes_against_other_gangs_until_nothing_of_it_is_left():
    async def story(on: Cluster) -> None:
        on.put_job(nodes=1, gpus=2)
        await on.lead()
        await on.run()
        gang = on.backend.jobs.get(JOB)
        assert gang is not None
        assert gang.run is not None
        check, placement = on.backend.monitor.placements, gang.run.placement
        stale = check.find_stale_node("ml/other", gang.job, placement, ["n1"])
        assert stale is not None
        assert stale.message == "node n1 has 0 gpu left, and 2 are needed"
        on.backend.perform([Stop(JOB, 1, 0)])
        for pod in list(on.backend.pods.all()):
            on.remove_pod(pod)
        await on.decide()
        assert gang.run.gone
        assert check.find_stale_node("ml/other", gang.job, placement, ["n1"]) is None

    play(story, "n1")
