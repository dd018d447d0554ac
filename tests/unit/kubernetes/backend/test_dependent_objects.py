"""Dependent objects of a running gang: the script that discovers hosts, and the pods of a launcher's Job."""

from __future__ import annotations

import asyncio
import base64
import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from member_stage import Stage
from recorded_api import RecordedApi

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.gangs.stored_state import Stored
from windlass.backends.kubernetes.pods import dependent_objects, gang_binder
from windlass.backends.kubernetes.pods.pod_executor import PodExecutor
from windlass.backends.kubernetes.pods.pod_store import PodStore
from windlass.core.lifecycle.failure import INVALID, REJECTED
from windlass.core.model.status import Phase, Status
from windlass.jobs.kubernetes.kinds import registry
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.wire import EndClass

DISCOVERY = "discover_hosts.sh"
TEMPLATE = {"spec": {"containers": [{"name": "mpi", "image": "i"}]}}


REPLICAS = {"Worker": {"replicas": 1, "template": {"spec": {"containers": [{"name": "pytorch", "image": "i"}]}}}}
PYTORCH = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"name": "digits"},
    "spec": {"pytorchReplicaSpecs": REPLICAS},
}


TRAINING = {
    "apiVersion": "windlass.dev/v1alpha1",
    "kind": "TrainingJob",
    "metadata": {"name": "digits"},
    "spec": {"image": "x", "command": "torchrun train.py", "nodes": 2},
}


class ObjectApi(RecordedApi):
    """Keeps dependent objects, and notes the hosts of each write of a config map."""

    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.requested: list[tuple[str, str]] = []
        """Kind and name of each request to create an object."""
        self.removed: list[tuple[str, str, str]] = []
        """Kind, name and uid of each request to delete an object."""
        self.hosts: list[str] = []
        self.refusal: ApiError | None = None

    async def create(self, resource: Any, body: dict[str, Any]) -> dict[str, Any]:
        if self.refusal is not None:
            raise self.refusal
        key = resource.kind, body["metadata"]["name"]
        self.requested.append(key)
        if key in self.objects:
            raise ApiError(409, "AlreadyExists", "it exists")
        self._note(body)
        self.objects[key] = await super().create(resource, body)
        return self.objects[key]

    async def get(self, resource: Any, _namespace: str, name: str, **_: Any) -> dict[str, Any]:
        return self.objects[resource.kind, name]

    async def list(self, resource: Any, _namespace: str, *, selector: str) -> list[dict[str, Any]]:
        key, _, value = selector.partition("=")
        found = (each for (kind, _), each in self.objects.items() if kind == resource.kind)
        return [each for each in found if each["metadata"].get("labels", {}).get(key) == value]

    async def patch(self, _resource: Any, _namespace: str, name: str, body: dict[str, Any], **_: Any) -> Any:
        if body["metadata"]["uid"] != self.objects["ConfigMap", name]["metadata"]["uid"]:
            raise ApiError(409, "Conflict", "UID in precondition")
        self._note(body)
        self.objects["ConfigMap", name]["data"] = body["data"]

    async def delete(self, resource: Any, _namespace: str, name: str, **options: Any) -> None:
        self.removed.append((resource.kind, name, options["uid"]))
        if resource.kind == "Job":
            del self.objects["Job", name]

    def _note(self, body: dict[str, Any]) -> None:
        if DISCOVERY in body.get("data", {}):
            self.hosts.append(body["data"][DISCOVERY].removeprefix("#!/bin/sh").strip())


def mpi_job(version: str) -> dict[str, Any]:
    specs = {"Launcher": {"replicas": 1, "template": TEMPLATE}, "Worker": {"replicas": 2, "template": TEMPLATE}}
    spec = {"mpiReplicaSpecs": specs}
    return {"apiVersion": f"kubeflow.org/{version}", "kind": "MPIJob", "metadata": {"name": "pi"}, "spec": spec}


def executor_of(api: RecordedApi, grace: int = 300_000, notes: list[str] | None = None) -> PodExecutor:
    notes = [] if notes is None else notes
    monitor: Any = SimpleNamespace(
        is_dead=lambda _node: False,
        placements=SimpleNamespace(find_stale_node=lambda *_: None),
        state=SimpleNamespace(node_grace=lambda _job: grace),
        faults=SimpleNamespace(note=lambda _about, sentence: notes.append(sentence)),
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
    await until(lambda: not (stage.run.busy or stage.run.updating_dependents))


async def until(is_over: Callable[[], bool]) -> None:
    for _ in range(200):
        if is_over():
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
        assert api.hosts == ["echo pi-worker-0:1\necho pi-worker-1:1", "echo pi-worker-0:1"]
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


def test_a_launchers_job_that_was_deleted_is_created_again() -> None:
    async def story() -> None:
        api, stage = ObjectApi(), Stage(mpi_job("v2beta1"))
        executor = executor_of(api)
        executor.upkeep.update(stage.gang, stage.run)
        await finish(executor, stage)
        del api.objects["Job", "pi-launcher"]
        executor.upkeep.update(stage.gang, stage.run)
        assert not stage.run.updating_dependents, "its deletion is not known yet"
        executor.upkeep.forget_jobs(stage.gang)
        executor.upkeep.update(stage.gang, stage.run)
        await finish(executor, stage)
        assert ("Job", "pi-launcher") in api.objects
        assert [kind for kind, _ in api.requested].count("ConfigMap") == 1
        await executor.close()

    asyncio.run(story())


@pytest.mark.parametrize("known", [True, False])
def test_a_suspended_mpijob_v2_has_its_objects_and_a_suspended_job(known: bool) -> None:
    async def story() -> None:
        manifest = mpi_job("v2beta1")
        manifest["spec"]["runPolicy"] = {"suspend": True}
        api, stage = ObjectApi(), Stage(manifest)
        executor, gang = executor_of(api), stage.gang
        gang.run, gang.stored = None, Stored(1, 1, Status(Phase.SUSPENDED))
        executor.upkeep.update_suspended(gang)
        executor.upkeep.update_suspended(gang)
        await until(lambda: len(api.objects) == 4)
        assert sorted(kind for kind, _ in api.requested) == ["ConfigMap", "Job", "Secret", "Service"]
        assert api.objects["Job", "pi-launcher"]["spec"]["suspend"] is True
        if not known:  # the operator was restarted
            gang.dependents.made.clear()
        manifest["spec"]["runPolicy"] = {}
        resumed = Stage(manifest)
        resumed.gang.dependents = gang.dependents
        executor.upkeep.update(resumed.gang, resumed.run)
        await finish(executor, resumed)
        assert [name for kind, name, _ in api.removed if kind == "Job"] == ["pi-launcher"]
        assert "suspend" not in api.objects["Job", "pi-launcher"]["spec"]
        await executor.close()

    asyncio.run(story())


@pytest.mark.parametrize(("version", "suspend"), [("v1", True), ("v2beta1", False)])
def test_nothing_is_created_for_other_jobs_without_pods(version: str, suspend: bool) -> None:
    manifest = mpi_job(version)
    manifest["spec"]["runPolicy"] = {"suspend": suspend}
    api, stage = ObjectApi(), Stage(manifest)
    stage.gang.run, stage.gang.stored = None, Stored(1, 1, Status(Phase.SUSPENDED))
    executor_of(api).upkeep.update_suspended(stage.gang)  # without an event loop, which a request would need
    assert api.requested == []


def owned_by(uid: str) -> list[dict[str, Any]]:
    return [{"apiVersion": "v1", "kind": "MPIJob", "name": "pi", "uid": uid, "controller": True}]


def existing(kind: str, name: str, **metadata: Any) -> dict[str, Any]:
    about = {"namespace": "ml", "name": name, "uid": f"uid-of-{name}", **metadata}
    return {"apiVersion": "v1", "kind": kind, "metadata": about, "data": {DISCOVERY: "#!/bin/sh\necho theirs:1\n"}}


@pytest.mark.parametrize("owners", [[], owned_by("another"), [{**owned_by("u")[0], "controller": False}]])
def test_an_object_that_the_job_does_not_own_is_neither_used_nor_changed(
    owners: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dependent_objects, "_GARBAGE_COLLECTION_S", 0.0)

    async def story() -> None:
        api, stage, notes = ObjectApi(), Stage(mpi_job("v2beta1")), list[str]()
        theirs = existing("ConfigMap", "pi-config", ownerReferences=owners)
        api.objects["ConfigMap", "pi-config"] = copy.deepcopy(theirs)
        executor = executor_of(api, notes=notes)
        executor.launch(stage.gang, stage.run)
        await finish(executor, stage)
        assert api.objects["ConfigMap", "pi-config"] == theirs
        assert api.bound == {}, "no pod mounts it"
        sentence = (
            "ConfigMap ml/pi-config exists and does not belong to this job: delete it "
            "(kubectl delete configmaps -n ml pi-config), or give the job another name"
        )
        assert stage.run.failed[0].detail == f"its dependent objects cannot be written: {sentence}"
        assert notes == [f"cannot use an object: {sentence}"]
        await executor.close()

    asyncio.run(story())


def test_a_launch_outlasts_an_api_server_that_has_not_read_the_roles_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gang_binder, "RETRY_INTERVAL_S", 0.01)

    async def story() -> None:
        api, stage = ObjectApi(), Stage(mpi_job("v2beta1"))
        api.refusal = ApiError(403, message='configmaps is forbidden: User "operator" cannot create resource')
        executor = executor_of(api)
        executor.launch(stage.gang, stage.run)
        await asyncio.sleep(0.05)
        assert (api.requested, stage.run.busy, stage.run.failed) == ([], True, {})
        api.refusal = None
        await finish(executor, stage)
        assert (sorted(api.bound), stage.run.failed) == (["pi-worker-0", "pi-worker-1"], {})
        await executor.close()

    asyncio.run(story())


def test_an_object_of_the_job_is_taken_by_the_next_leader_and_updated() -> None:
    async def story() -> None:
        api, stage = ObjectApi(), Stage(mpi_job("v1"))
        api.objects["ConfigMap", "pi-config"] = existing("ConfigMap", "pi-config", ownerReferences=owned_by("u"))
        executor = executor_of(api)
        stage.run.pods.running = {"pi-worker-0"}
        executor.upkeep.update(stage.gang, stage.run)
        await finish(executor, stage)
        assert api.hosts == ["echo pi-worker-0:1"]
        await executor.close()

    asyncio.run(story())


def test_a_config_map_in_the_place_of_a_deleted_one_is_not_overwritten() -> None:
    async def story() -> None:
        api, stage, notes = ObjectApi(), Stage(mpi_job("v1")), list[str]()
        executor = executor_of(api, notes=notes)
        executor.upkeep.update(stage.gang, stage.run)
        await finish(executor, stage)
        theirs = existing("ConfigMap", "pi-config")
        api.objects["ConfigMap", "pi-config"] = copy.deepcopy(theirs)
        stage.run.pods.running, stage.run.pods.revision = {"pi-worker-0"}, stage.run.pods.revision + 1
        executor.upkeep.update(stage.gang, stage.run)
        await finish(executor, stage)
        assert api.objects["ConfigMap", "pi-config"] == theirs
        assert len(notes) == 1
        await executor.close()

    asyncio.run(story())


def test_only_services_of_the_job_are_deleted_with_its_pods() -> None:
    async def story() -> None:
        api, stage = ObjectApi(), Stage(PYTORCH)
        executor = executor_of(api)
        executor.upkeep.update(stage.gang, stage.run)
        await finish(executor, stage)
        executor.upkeep.remove_services(stage.gang, ["digits-worker-0"])
        await asyncio.sleep(0.01)
        assert api.removed == [("Service", "digits-worker-0", "made")]
        del api.objects["Service", "digits-worker-0"]
        stage.gang.dependents.made_for = (-1, 0)  # another generation
        executor.upkeep.update(stage.gang, stage.run)
        await finish(executor, stage)
        assert ("Service", "digits-worker-0") in api.objects
        await executor.close()

    asyncio.run(story())


def test_the_next_leader_deletes_the_services_of_pods_that_an_ending_job_does_not_keep() -> None:
    async def story() -> None:
        api, stage = ObjectApi(), Stage(PYTORCH)
        executor = executor_of(api)
        for uid in ("u", "another"):
            name = "digits-worker-0"
            api.objects["Service", name] = existing("Service", name, ownerReferences=owned_by(uid))
            executor.upkeep.remove_services(stage.gang, [name], stage.run)
            assert stage.run.removing_services
            await asyncio.sleep(0.01)
            assert not stage.run.removing_services
        assert api.removed == [("Service", "digits-worker-0", "uid-of-digits-worker-0")]
        await executor.close()

    asyncio.run(story())


def test_the_next_leader_deletes_the_services_of_members_that_were_removed_before_its_time() -> None:
    async def story() -> None:
        api, stage = ObjectApi(), Stage(PYTORCH)
        labels = {"training.kubeflow.org/job-name": "digits"}
        for index, uid in ((0, "u"), (1, "u"), (2, "another")):
            name = f"digits-worker-{index}"
            api.objects["Service", name] = existing("Service", name, labels=labels, ownerReferences=owned_by(uid))
        executor = executor_of(api)
        executor.upkeep.update(stage.gang, stage.run)
        await finish(executor, stage)
        assert api.removed == [("Service", "digits-worker-1", "uid-of-digits-worker-1")]
        await executor.close()

    asyncio.run(story())


def test_the_name_of_a_secret_is_that_of_one_job_only() -> None:
    names = []
    for uid in ("u", "v"):
        manifest = mpi_job("v2beta1")
        manifest["metadata"] |= {"namespace": "ml", "uid": uid}
        parsed = registry.read(manifest)
        assert isinstance(parsed, ParsedJob)
        (secret,) = (each for each in registry.dependent_objects(parsed, ()) if each["kind"] == "Secret")
        worker = next(each for each in registry.members(parsed, 1) if each.role == "worker")
        mounted = [volume["secret"]["secretName"] for volume in worker.pod["spec"]["volumes"]]
        assert mounted == [secret["metadata"]["name"]]
        names += mounted
    assert len(set(names)) == 2


def test_each_gang_has_a_random_secret_before_its_pods_exist() -> None:
    async def value() -> str:
        api, stage = ObjectApi(), Stage(TRAINING)
        executor = executor_of(api)
        executor.launch(stage.gang, stage.run)
        await finish(executor, stage)
        (made,) = (each for (kind, _), each in api.objects.items() if kind == "Secret")
        assert api.bound.keys() == {"digits-worker-0", "digits-worker-1"}
        await executor.close()
        return base64.b64decode(made["data"]["secret"]).decode()

    first, second = asyncio.run(value()), asyncio.run(value())
    assert len(first) == len(second) == 64
    assert first != second


def test_the_next_leader_leaves_the_secret_of_a_gang_as_it_is() -> None:
    async def story() -> None:
        api, stage = ObjectApi(), Stage(TRAINING)
        executor = executor_of(api)
        executor.launch(stage.gang, stage.run)
        await finish(executor, stage)
        before = copy.deepcopy(api.objects)
        stage.gang.dependents.made.clear()
        executor.launch(stage.gang, stage.run)
        await finish(executor, stage)
        assert api.objects == before
        assert not stage.run.failed
        await executor.close()

    asyncio.run(story())
