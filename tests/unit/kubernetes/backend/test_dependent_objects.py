"""Dependent objects of a running gang: the script that discovers hosts, and the pods of a launcher's Job."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from member_stage import Stage
from recorded_api import RecordedApi

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.pods.pod_executor import PodExecutor
from windlass.backends.kubernetes.pods.pod_store import PodStore
from windlass.core.lifecycle.failure import INVALID, REJECTED
from windlass.wire import EndClass

DISCOVERY = "discover_hosts.sh"
TEMPLATE = {"spec": {"containers": [{"name": "mpi", "image": "i"}]}}


class ObjectApi(RecordedApi):
    """Keeps dependent objects, and notes the hosts of each write of a config map."""

    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.hosts: list[str] = []
        self.refusal: ApiError | None = None

    async def create(self, resource: Any, body: dict[str, Any]) -> dict[str, Any]:
        if self.refusal is not None:
            raise self.refusal
        key = resource.kind, body["metadata"]["name"]
        if key in self.objects:
            raise ApiError(409, "AlreadyExists", "it exists")
        self._note(body)
        self.objects[key] = await super().create(resource, body)
        return self.objects[key]

    async def get(self, resource: Any, _namespace: str, name: str) -> dict[str, Any]:
        return self.objects[resource.kind, name]

    async def patch(self, _resource: Any, _namespace: str, name: str, body: dict[str, Any], **_: Any) -> Any:
        self._note(body)
        self.objects["ConfigMap", name] |= body

    def _note(self, body: dict[str, Any]) -> None:
        if DISCOVERY in body.get("data", {}):
            self.hosts.append(body["data"][DISCOVERY].removeprefix("#!/bin/sh\n"))


def mpi_job(version: str) -> dict[str, Any]:
    specs = {"Launcher": {"replicas": 1, "template": TEMPLATE}, "Worker": {"replicas": 2, "template": TEMPLATE}}
    spec = {"mpiReplicaSpecs": specs}
    return {"apiVersion": f"kubeflow.org/{version}", "kind": "MPIJob", "metadata": {"name": "pi"}, "spec": spec}


def executor_of(api: RecordedApi, grace: int = 300_000) -> PodExecutor:
    monitor: Any = SimpleNamespace(
        is_dead=lambda _node: False,
        placements=SimpleNamespace(find_stale_node=lambda *_: None),
        state=SimpleNamespace(node_grace=lambda _job: grace),
    )
    return PodExecutor(
        api,  # type: ignore[arg-type]
        PodStore(lambda _pod, _there: None),
        4,
        monitor,
        lambda _gang: None,
        lambda _job: None,
        lambda _trouble: None,
    )


async def finish(executor: PodExecutor, stage: Stage) -> None:
    for _ in range(200):
        if not (stage.run.busy or stage.run.updating_dependents):
            return
        await asyncio.sleep(0.01)
    raise AssertionError("requests are still under way")


@pytest.mark.parametrize("known", [True, False])
def test_a_restarted_worker_leaves_the_hosts_of_the_others_in_the_script(known: bool) -> None:
    async def story() -> None:
        api, stage = ObjectApi(), Stage(mpi_job("v1"))
        executor = executor_of(api)
        stage.run.pods.running = {"pi-worker-0", "pi-worker-1"}
        executor.upkeep.update(stage.gang, stage.run)
        await finish(executor, stage)
        if not known:  # the operator was restarted
            stage.gang.dependents.made.clear()
        stage.run.pods.running, stage.run.pods.revision = {"pi-worker-0"}, stage.run.pods.revision + 1
        executor.make_anew(stage.gang, stage.run, ["pi-worker-1"])
        await finish(executor, stage)
        executor.upkeep.update(stage.gang, stage.run)
        await finish(executor, stage)
        assert api.hosts == ["echo pi-worker-0:1\necho pi-worker-1:1\n", "echo pi-worker-0:1\n"]
        await executor.close()

    asyncio.run(story())


@pytest.mark.parametrize(("status", "end_class"), [(422, INVALID), (403, REJECTED)])
def test_an_invalid_dependent_object_ends_its_job_and_a_forbidden_one_does_not(
    status: int, end_class: EndClass
) -> None:
    async def story() -> None:
        api, stage = ObjectApi(), Stage(mpi_job("v1"))
        api.refusal = ApiError(status)
        executor = executor_of(api)
        executor.launch(stage.gang, stage.run)
        await finish(executor, stage)
        assert stage.run.failed[0].end_class is end_class
        await executor.close()

    asyncio.run(story())


def test_a_new_generation_begins_with_a_script_of_its_own() -> None:
    async def story() -> None:
        api, stage = ObjectApi(), Stage(mpi_job("v1"))
        executor = executor_of(api)
        stage.run.pods.running = {"pi-worker-0", "pi-worker-1"}
        executor.upkeep.update(stage.gang, stage.run)
        await finish(executor, stage)
        stage.run.pods.running = set()
        executor.launch(stage.gang, stage.run)
        await finish(executor, stage)
        assert api.hosts[-1] == ""
        await executor.close()

    asyncio.run(story())


def test_the_pods_of_a_launchers_job_tolerate_unreachable_nodes_for_the_grace() -> None:
    async def story() -> None:
        api, stage = ObjectApi(), Stage(mpi_job("v2beta1"))
        executor = executor_of(api, grace=600_000)
        executor.upkeep.update(stage.gang, stage.run)
        await finish(executor, stage)
        template = api.objects["Job", "pi-launcher"]["spec"]["template"]
        assert [each["tolerationSeconds"] for each in template["spec"]["tolerations"]] == [660, 660]
        await executor.close()

    asyncio.run(story())
