"""Jobs that another scheduler places, on a real API server: a fake Volcano binds their pods."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.backends.kubernetes.watches import catch_up
from windlass.controlplane.cluster import ControlPlane
from windlass.core.model.status import Phase
from windlass.jobs.kubernetes.foreign_schedulers import parse_scheduler_rules
from windlass.jobs.kubernetes.settings import Settings

from . import other_kinds as kinds
from .rig import Rig, Scheduler
from .test_external_gangs import play

pytestmark = pytest.mark.controllers
PYTORCH_JOBS = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"
QUEUES = "/apis/windlass.dev/v1alpha1/queues"
RULES = Settings(foreign_schedulers=parse_scheduler_rules("volcano=respect,none=refuse"))


def job(name: str, scheduler: str, *, queue: str = "") -> dict[str, Any]:
    container = {"name": "pytorch", "image": "any", "resources": {"limits": {"nvidia.com/gpu": "2"}}}
    template = {"spec": {"containers": [container], "schedulerName": scheduler, "terminationGracePeriodSeconds": 1}}
    worker = {"replicas": 2, "restartPolicy": "Never", "template": template}
    policy = {"cleanPodPolicy": "All", "schedulingPolicy": {"queue": queue}}
    about = {"name": name, "namespace": "default"}
    spec = {"runPolicy": policy, "pytorchReplicaSpecs": {"Worker": worker}}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": about, "spec": spec}


async def bind(on: Rig, name: str, node: str) -> None:
    """Binds a pod as another scheduler does."""
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    await on.api.post(f"{kinds.PODS}/{name}/binding", {"metadata": {"name": name}, "target": target})


async def until_made(on: Rig, *names: str) -> dict[str, dict[str, Any]]:
    async def made() -> dict[str, dict[str, Any]] | None:
        pods = await on.pods()
        return pods if pods.keys() >= set(names) else None

    return await on.until(made)


async def until_phase(on: Rig, scheduler: Scheduler, name: str, phase: Phase) -> Any:
    async def reached() -> Any:
        found = [state for job_id, state in scheduler.controller.states.items() if job_id.endswith(f"/{name}")]
        return found[0] if found and found[0].status.phase is phase else None

    return await on.until(reached)


async def conditions_of(on: Rig, name: str) -> dict[str, dict[str, Any]]:
    status = (await on.api.get(f"{PYTORCH_JOBS}/{name}")).get("status", {})
    return {each["type"]: each for each in status.get("conditions", ())}


def test_a_respected_job_is_admitted_by_its_quota_and_bound_by_its_scheduler(plane: ControlPlane) -> None:
    async def story(on: Rig) -> None:
        quota = {"metadata": {"name": "teams"}, "spec": {"quota": {"gpu": 4}, "namespaceSelector": {}}}
        await on.api.post(QUEUES, {"apiVersion": "windlass.dev/v1alpha1", "kind": "Queue", **quota})
        try:
            scheduler = await on.scheduler(kinds=RULES)
            # 1. it is admitted and its pods are made, bound to nothing, with a PodGroup of Volcano
            await on.api.post(PYTORCH_JOBS, job("digits", "volcano", queue="teams"))
            pods = await until_made(on, "digits-worker-0", "digits-worker-1")
            for pod in pods.values():
                assert (pod["spec"]["schedulerName"], pod["spec"].get("nodeName")) == ("volcano", None)
                assert pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "digits"

            async def group() -> dict[str, Any] | None:
                found = (await on.api.get(kinds.VOLCANO_GROUPS))["items"]
                return found[0] if found else None

            made = await on.until(group)
            assert (made["metadata"]["name"], made["spec"]["minMember"], made["spec"]["queue"]) == (
                "digits",
                2,
                "teams",
            )
            # 2. its queue is full: another one waits, and has no pods that its scheduler could bind
            await on.api.post(PYTORCH_JOBS, job("second", "volcano", queue="teams"))
            await until_phase(on, scheduler, "second", Phase.QUEUED)
            assert not [name for name in await on.pods() if name.startswith("second")]
            # 3. its nodes are those that its scheduler binds its pods to, and count once
            await bind(on, "digits-worker-0", "n2")
            await bind(on, "digits-worker-1", "n1")
            state = await until_phase(on, scheduler, "digits", Phase.RUNNING)
            assert state.status.placement.nodes == {"worker": ("n2", "n1")}
            await on.make(*(kinds.pod(f"rest-{n}", gpus=2) for n in range(2)))
            places = await on.until_placed("rest-0", "rest-1")
            assert sorted([places["rest-0"], places["rest-1"]]) == ["n1", "n2"]
            await on.make(kinds.pod("rest-2", gpus=2))
            assert "2 gpu" in await on.why("rest-2")
            # 4. at its end its quota and its nodes are free
            for name in ("digits-worker-0", "digits-worker-1"):
                await on.nodes.end("default", name)
            await until_made(on, "second-worker-0", "second-worker-1")
            await on.until_placed("rest-2")
            assert (await conditions_of(on, "digits"))["Succeeded"]["status"] == "True"
        finally:
            await on.api.delete(PYTORCH_JOBS)
            await on.api.delete(f"{QUEUES}/teams")

    play(plane, story)


def test_the_next_leader_goes_on_with_a_job_that_is_placed_in_part(plane: ControlPlane) -> None:
    async def story(on: Rig) -> None:
        try:
            first = await on.scheduler(kinds=RULES)
            await on.api.post(PYTORCH_JOBS, job("digits", "volcano"))
            before = await until_made(on, "digits-worker-0", "digits-worker-1")
            await bind(on, "digits-worker-0", "n1")
            await on.close(first)
            await bind(on, "digits-worker-1", "n2")
            second = await on.scheduler(kinds=RULES)
            state = await until_phase(on, second, "digits", Phase.RUNNING)
            assert state.status.placement.nodes == {"worker": ("n1", "n2")}
            await catch_up(second.world)
            assert {each.metadata.name for each in second.world.pods.all()} >= before.keys()
            after = await on.pods()
            assert [each["metadata"]["uid"] for each in after.values()] == [
                each["metadata"]["uid"] for each in before.values()
            ]
        finally:
            await on.api.delete(PYTORCH_JOBS)

    play(plane, story)


def test_a_refused_job_has_a_condition_with_the_reason_and_an_adopted_one_runs(plane: ControlPlane) -> None:
    async def story(on: Rig) -> None:
        try:
            await on.scheduler(kinds=RULES)
            await on.api.post(PYTORCH_JOBS, job("refused", "none"))
            await on.api.post(PYTORCH_JOBS, job("adopted", "default-scheduler"))
            places = await on.until_placed("adopted-worker-0", "adopted-worker-1")
            assert places.keys() == {"adopted-worker-0", "adopted-worker-1"}

            async def refused() -> bool:
                found = (await conditions_of(on, "refused")).values()
                return any(
                    each["status"] == "False" and "which this installation refuses" in each["message"] for each in found
                )

            await on.until(refused)
        finally:
            await on.api.delete(PYTORCH_JOBS)

    play(plane, story)
