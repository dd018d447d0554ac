"""External gangs on a real API server: single pods, PodGroups of three dialects, Jobs and JobSets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import pytest

import strays
from windlass.backends.port import Changes
from windlass.controlplane.cluster import ControlPlane
from windlass.controlplane.fake_pod import End
from windlass.core.lifecycle.commands import Launch
from windlass.core.model.status import Phase
from windlass.jobs.description.job_file import loads
from windlass.jobs.kubernetes.labels import PENDING
from windlass.jobs.kubernetes.other_schedulers.cron_job import cron_job_objects

from . import other_kinds as kinds
from .rig import Rig, rig

pytestmark = pytest.mark.controllers
CRON_JOBS = "/apis/batch/v1/namespaces/default/cronjobs"
Story = Callable[[Rig], Coroutine[Any, Any, None]]


def play(plane: ControlPlane, story: Story, **given: int) -> None:
    async def whole() -> None:
        async with rig(plane, **given) as opened:
            await story(opened)

    asyncio.run(whole())


def test_a_single_pod_is_placed_and_frees_its_capacity_at_its_end(plane: ControlPlane) -> None:
    async def story(on: Rig) -> None:
        scheduler = await on.scheduler()
        await on.make(kinds.pod("shell", gpus=4))
        await on.until_placed("shell")
        await on.make(kinds.pod("next", gpus=4))
        assert "4 gpu" in await on.why("next")
        await on.nodes.end("default", "shell", End(code=1))
        await on.until_placed("next")
        await on.nodes.end("default", "next")
        await on.until_forgotten(scheduler)

    play(plane, story, nodes=1)


def test_pods_of_another_scheduler_are_ignored_and_keep_their_capacity(plane: ControlPlane) -> None:
    async def story(on: Rig) -> None:
        await on.make(kinds.pod("theirs", gpus=3, schedulerName="another", nodeName="n1"))
        await on.scheduler()
        await on.make(kinds.pod("ours", gpus=2), kinds.pod("other", schedulerName="another"))
        assert (await on.until_placed("ours"))["ours"] == "n2"
        assert "other" not in await on.places()

    play(plane, story)


def test_a_gang_whose_gpus_another_writer_takes_before_it_is_bound_waits_for_them(plane: ControlPlane) -> None:
    async def story(on: Rig) -> None:
        scheduler = await on.scheduler()
        commit, theirs = scheduler.world.commit, kinds.pod("theirs", 3, schedulerName="another", nodeName="n1")

        async def commit_and_be_late(changes: Changes) -> Mapping[str, str]:
            """Commits; before the first launch is performed, a pod of another scheduler is bound."""
            failures = await commit(changes)
            if any(isinstance(command, Launch) for command in changes.commands):
                scheduler.world.commit = commit  # type: ignore[method-assign]
                await on.make(theirs)
                await asyncio.sleep(0.5)  # the watch has seen it
            return failures

        scheduler.world.commit = commit_and_be_late  # type: ignore[method-assign]
        await on.make(kinds.pod("ours", gpus=2))
        assert "gpu" in await on.why("ours")
        assert set(await on.places()) == {"theirs"}
        state = scheduler.controller.states["default/pod/ours"]
        assert (state.status.phase, state.status.infrastructure_failures) == (Phase.QUEUED, 0)
        await on.api.delete(f"{kinds.PODS}/theirs", gracePeriodSeconds=0)
        await on.until_placed("ours")

    play(plane, story, nodes=1)


def test_a_coscheduling_group_is_placed_once_all_its_pods_exist(plane: ControlPlane) -> None:
    async def story(on: Rig) -> None:
        await on.scheduler()
        await on.make(*(kinds.coscheduled("g", f"g-{index}") for index in range(2)))
        assert await on.why("g-0") == "PodGroup default/g does not exist"
        await on.api.post(kinds.COSCHEDULING_GROUPS, kinds.coscheduling("g", 3))

        async def told() -> bool:
            group = await on.api.get(f"{kinds.COSCHEDULING_GROUPS}/g")
            return "2 of 3 pods" in group["metadata"].get("annotations", {}).get(PENDING, "")

        await on.until(told)
        await on.make(kinds.coscheduled("g", "g-2"))
        await on.until_placed("g-0", "g-1", "g-2")

        async def running() -> bool:
            group = await on.api.get(f"{kinds.COSCHEDULING_GROUPS}/g")
            return group.get("status", {}).get("phase") == "Running"

        await on.until(running)

    play(plane, story)


def test_a_gang_that_does_not_fit_as_a_whole_has_no_pod_placed(plane: ControlPlane) -> None:
    async def story(on: Rig) -> None:
        await on.scheduler()
        await on.make(kinds.pod("first", gpus=2))
        await on.until_placed("first")
        await on.api.post(kinds.VOLCANO_GROUPS, kinds.volcano("g", 4))
        await on.make(*(kinds.pod(f"g-{n}", 2, annotations={kinds.VOLCANO_NAME: "g"}) for n in range(4)))
        assert "gpu" in await on.why("g-3")
        assert (await on.places()).keys() == {"first"}

        async def is_told() -> bool:
            conditions = (await on.api.get(f"{kinds.VOLCANO_GROUPS}/g")).get("status", {}).get("conditions", [])
            return any(each["type"] == "Unschedulable" and "gpu" in each["message"] for each in conditions)

        await on.until(is_told)
        await on.nodes.end("default", "first")
        await on.until_placed(*(f"g-{n}" for n in range(4)))

    play(plane, story)


def test_a_native_group_is_placed_whole(plane: ControlPlane) -> None:
    async def story(on: Rig) -> None:
        await on.scheduler()
        await on.api.post(kinds.NATIVE_GROUPS, kinds.native("g", 3))
        await on.make(*(kinds.pod(f"g-{n}", 2, schedulingGroup={"podGroupName": "g"}) for n in range(3)))
        await on.until_placed(*(f"g-{n}" for n in range(3)))

        async def is_told() -> bool:
            conditions = (await on.api.get(f"{kinds.NATIVE_GROUPS}/g")).get("status", {}).get("conditions", [])
            return any(each["type"] == "PodGroupScheduled" and each["status"] == "True" for each in conditions)

        await on.until(is_told)

    play(plane, story)


def test_the_pods_of_a_batch_job_start_together_and_a_replacement_joins_them(plane: ControlPlane) -> None:
    async def story(on: Rig) -> None:
        scheduler = await on.scheduler()
        await on.api.post(kinds.JOBS, kinds.batch_job("digits", 4))
        names = await on.until_running(4)
        assert set(scheduler.controller.states) == {"default/job/digits"}
        await on.nodes.end("default", min(names), End(code=1))

        async def replaced() -> bool:
            return len(set(await on.until_running(4)) - set(names)) == 1

        await on.until(replaced)

    play(plane, story, gpus=2)


def test_the_jobs_of_a_job_set_start_together(plane: ControlPlane) -> None:
    async def story(on: Rig) -> None:
        await on.scheduler()
        await on.api.post(kinds.JOB_SETS, kinds.job_set("digits", leader=1, worker=2))
        await on.make(kinds.of_job_set("digits", "leader", 0), kinds.of_job_set("digits", "worker", 0))
        assert await on.why("digits-leader-0") == "2 of 3 pods exist"
        await on.make(kinds.of_job_set("digits", "worker", 1))
        await on.until_placed("digits-leader-0", "digits-worker-0", "digits-worker-1")

    play(plane, story)


def test_a_pod_with_a_gate_does_not_exist_yet(plane: ControlPlane) -> None:
    async def story(on: Rig) -> None:
        await on.scheduler()
        gates = [{"name": "example.com/quota"}]
        await on.make(kinds.pod("held", schedulingGates=gates), kinds.pod("free"))
        await on.until_placed("free")
        assert "held" not in await on.places()
        await on.api.patch(f"{kinds.PODS}/held", {"spec": {"schedulingGates": None}})
        await on.until_placed("held")

    play(plane, story)


def test_a_gang_whose_pod_is_deleted_while_it_waits_waits_for_the_next_one(plane: ControlPlane) -> None:
    async def story(on: Rig) -> None:
        await on.scheduler()
        await on.make(kinds.pod("first", gpus=4))
        await on.until_placed("first")
        await on.api.post(kinds.COSCHEDULING_GROUPS, kinds.coscheduling("g", 2))
        await on.make(*(kinds.coscheduled("g", f"g-{n}", gpus=2) for n in range(2)))
        assert "gpu" in await on.why("g-0")
        await on.api.delete(f"{kinds.PODS}/g-1", gracePeriodSeconds=0)
        await on.nodes.end("default", "first")
        await on.make(kinds.pod("sign"))
        await on.until_placed("sign")
        assert "g-0" not in await on.places()
        await on.api.delete(f"{kinds.PODS}/sign", gracePeriodSeconds=0)
        await on.make(kinds.coscheduled("g", "g-1", gpus=2))
        await on.until_placed("g-0", "g-1")

    play(plane, story, nodes=1)


def test_a_gang_whose_pod_is_replaced_or_whose_group_grows_while_it_waits_is_still_placed_whole(
    plane: ControlPlane,
) -> None:
    async def story(on: Rig) -> None:
        scheduler = await on.scheduler()
        await on.make(kinds.pod("first", gpus=3))
        await on.until_placed("first")
        await on.api.post(kinds.COSCHEDULING_GROUPS, kinds.coscheduling("g", 2))
        await on.make(*(kinds.coscheduled("g", f"g-{n}") for n in range(2)))
        assert "gpu" in await on.why("g-0")
        await on.api.delete(f"{kinds.PODS}/g-1", gracePeriodSeconds=0)
        await on.make(kinds.coscheduled("g", "g-1"))  # it fits alone
        await on.api.patch(f"{kinds.COSCHEDULING_GROUPS}/g", {"spec": {"minMember": 3}})
        await on.make(kinds.coscheduled("g", "g-2"))

        async def whole() -> bool:
            found = scheduler.controller.states.get("default/podgroup/g")
            return found is not None and found.job.members == 3

        await on.until(whole)
        assert (await on.places()).keys() == {"first"}
        await on.nodes.end("default", "first")
        await on.until_placed("g-0", "g-1", "g-2")

    play(plane, story, nodes=1)


def test_a_gang_preempted_by_a_higher_priority_is_placed_again(plane: ControlPlane) -> None:
    async def story(on: Rig) -> None:
        await on.api.post(kinds.PRIORITY_CLASSES, kinds.priority_class("urgent", 1000))
        await on.api.post(kinds.POLICIES, kinds.policy(min_runtime="0s"))
        try:
            scheduler = await on.scheduler()
            await on.api.post(kinds.JOBS, kinds.batch_job("patient", 2))
            before = await on.until_running(2)
            await on.make(kinds.pod("urgent", gpus=2, priorityClassName="urgent"))
            await on.until_placed("urgent")
            assert await on.until_running(1) == ["urgent"]
            await on.nodes.end("default", "urgent")
            # the Job controller creates pods in place of two that have failed only 20 s later
            assert not set(before) & set(await on.until_running(2, within=20 + strays.TIMEOUT_S))
            assert scheduler.controller.states.keys() == {"default/job/patient"}
        finally:
            await on.api.delete(f"{kinds.PRIORITY_CLASSES}/urgent")
            await on.api.delete(f"{kinds.POLICIES}/default")

    play(plane, story, nodes=1, gpus=2)


def test_a_preemption_that_a_budget_forbids_is_given_up(plane: ControlPlane) -> None:
    async def story(on: Rig) -> None:
        await on.api.post(kinds.PRIORITY_CLASSES, kinds.priority_class("urgent", 1000))
        await on.api.post(kinds.POLICIES, kinds.policy(min_runtime="0s"))
        await on.api.post(kinds.BUDGETS, kinds.budget("keep", "patient"))
        try:
            scheduler = await on.scheduler(eviction_timeout_s=0.5)
            await on.make(kinds.pod("patient", labels={"app": "patient"}))
            await on.until_running(1)
            await on.make(kinds.pod("urgent", priorityClassName="urgent"))

            async def given_up() -> bool:
                status = scheduler.controller.states["default/pod/patient"].status
                return (status.phase, status.reason) == (Phase.RUNNING, "PreemptionRefused")

            await on.until(given_up)
            assert any("default/patient cannot be evicted" in trouble for trouble in scheduler.troubles)
            assert (await on.places()).keys() == {"patient"}
            await on.nodes.end("default", "patient")
            await on.until_placed("urgent")
        finally:
            await on.api.delete(f"{kinds.BUDGETS}/keep")
            await on.api.delete(f"{kinds.PRIORITY_CLASSES}/urgent")
            await on.api.delete(f"{kinds.POLICIES}/default")

    play(plane, story, nodes=1, gpus=1)


def test_a_pod_rejected_by_its_kubelet_does_not_bind_its_replacement_to_that_node(plane: ControlPlane) -> None:
    """Another scheduler has bound its pod to the node at the same time."""

    async def story(on: Rig) -> None:
        await on.scheduler()
        await on.api.post(kinds.JOBS, kinds.batch_job("digits", 2))
        first = await on.until_running(2)
        refused = min(first)
        where = (await on.places())[refused]
        theirs = kinds.pod("theirs", gpus=1, schedulerName="another", nodeName=where)
        await on.make(theirs)
        turned_away = {"phase": "Failed", "reason": "OutOfnvidia.com/gpu", "message": "no gpu left"}
        await on.api.patch(f"{kinds.PODS}/{refused}/status", {"status": turned_away})

        async def replaced() -> set[str] | None:
            return set(await on.places()) - {*first, "theirs"} or None

        [comer] = await on.until(replaced)
        assert (await on.places())[comer] != where, "its node is full"

    play(plane, story, gpus=2)


def test_a_gang_that_loses_a_node_continues_and_keeps_its_capacity(plane: ControlPlane) -> None:
    async def story(on: Rig) -> None:
        scheduler = await on.scheduler()
        await on.api.post(kinds.COSCHEDULING_GROUPS, kinds.coscheduling("g", 2))
        await on.make(*(kinds.coscheduled("g", f"g-{n}", gpus=2) for n in range(2)))
        places = await on.until_placed("g-0", "g-1")
        assert set(places.values()) == {"n1", "n2"}
        await on.make(kinds.pod("next", gpus=1))
        assert "gpu" in await on.why("next")
        await on.nodes.remove_nodes([places["g-0"]])

        async def forgotten() -> bool:
            return "default/podgroup/g" not in scheduler.controller.states

        await on.until(forgotten)
        await on.make(kinds.pod("last", gpus=1))
        assert "gpu" in await on.why("last")
        assert not (await on.places()).keys() & {"next", "last"}
        await on.nodes.end("default", "g-1")
        await on.until_placed("next")

    play(plane, story, gpus=2)


def test_a_gang_that_fits_no_node_is_reported_and_retried_with_more_nodes(plane: ControlPlane) -> None:
    async def story(on: Rig) -> None:
        await on.scheduler()
        await on.make(kinds.pod("big", gpus=8))
        assert "8 gpu" in await on.why("big")
        await on.nodes.add_nodes(["n9"], gpus=8)
        assert (await on.until_placed("big"))["big"] == "n9"

    play(plane, story, gpus=2)


def test_a_job_waits_for_the_end_of_an_earlier_one_of_its_name(plane: ControlPlane) -> None:
    async def story(on: Rig) -> None:
        await on.scheduler()
        await on.api.post(kinds.JOBS, kinds.batch_job("digits", 2))
        before = await on.until_running(2)
        await on.api.delete(f"{kinds.JOBS}/digits", propagationPolicy="Background")
        await on.api.post(kinds.JOBS, kinds.batch_job("digits", 2))

        async def renewed() -> bool:
            running = set(await on.until_running(2))
            return not running & set(before)

        await on.until(renewed)

    play(plane, story, gpus=2)


def test_each_run_of_a_cron_job_is_a_gang(plane: ControlPlane) -> None:
    """Kubernetes' own controller starts the run, at the next full minute."""
    text = "name: nightly\ncommand: train\nnodes: 2\ngpus: 1\nimage: train:1\ncron: '* * * * *'\n"
    [submission] = loads(text)
    [cron_job, service], _ = cron_job_objects(submission, "default")

    async def story(on: Rig) -> None:
        scheduler = await on.scheduler()
        await on.api.post("/api/v1/namespaces/default/services", service)
        await on.api.post(CRON_JOBS, cron_job)
        try:
            first, second = await on.until_running(2, within=60 + strays.TIMEOUT_S)
            [gang] = scheduler.controller.states
            run = gang.removeprefix("default/job/")
            assert {first, second} == set(await on.pods())
            job = await on.api.get(f"{kinds.JOBS}/{run}")
            assert job["metadata"]["ownerReferences"][0]["name"] == "nightly"
        finally:
            await on.api.delete(f"{CRON_JOBS}/nightly", propagationPolicy="Background")
            await on.api.delete("/api/v1/namespaces/default/services/nightly")

    play(plane, story)
