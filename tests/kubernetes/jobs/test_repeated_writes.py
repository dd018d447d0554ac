"""Writes that find what another writer has left, on a real API server with the operator's own rights.

They need rights that an undisturbed operator does not use: to read an object whose write was a conflict, or whose name
is taken.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import yaml
from external.other_kinds import VOLCANO
from kubernetes_host import create_definitions
from operator_account import NAMESPACE, operator_access
from operator_place import created
from planes.tidy import clear

import strays
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.object_reference import reference_to
from windlass.backends.kubernetes.client.resources import DEFINITIONS, path
from windlass.backends.kubernetes.gangs.gang import Gang, ObjectVersion
from windlass.backends.kubernetes.gangs.stored_state import FIELD
from windlass.backends.kubernetes.pods.dependent_objects import RESOURCES, DependentObjects, Wanted
from windlass.backends.kubernetes.pods.volume_binding import choose_volumes
from windlass.backends.kubernetes.served_kinds import JOB_KINDS
from windlass.backends.kubernetes.status.state_writes import delete_object, write_state
from windlass.controlplane.api import Api, ApiError
from windlass.controlplane.cluster import ControlPlane
from windlass.core.model.status import JobState, Phase, Status
from windlass.deploy.crds import POD_GROUPS, crds
from windlass.jobs.kubernetes.foreign_schedulers import parse_scheduler_rules
from windlass.jobs.kubernetes.kinds import registry
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.jobs.kubernetes.settings import Settings
from windlass.server.operator import leader_label

pytestmark = pytest.mark.apiserver
CORE = f"/api/v1/namespaces/{NAMESPACE}"
JOBS = """
apiVersion: windlass.dev/v1alpha1
kind: TrainingJob
metadata: {name: own}
spec: {command: [train], image: i}
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: elastic}
spec:
  elasticPolicy:
    minReplicas: 1
    maxReplicas: 2
    metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]
  pytorchReplicaSpecs:
    Worker: {replicas: 1, template: {spec: {containers: [{name: pytorch, image: i, command: [train]}]}}}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: trainer}
spec: {runtimeRef: {name: torch-distributed}, trainer: {image: i, command: [train]}}
---
apiVersion: kubeflow.org/v1
kind: MPIJob
metadata: {name: exec}
spec:
  mpiReplicaSpecs:
    Launcher: &mpi {replicas: 1, template: {spec: {containers: [{name: mpi, image: i, command: [train]}]}}}
    Worker: *mpi
---
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: ssh}
spec:
  mpiReplicaSpecs:
    Launcher: &mpi {replicas: 1, template: {spec: {containers: [{name: mpi, image: i, command: [train]}]}}}
    Worker: *mpi
---
apiVersion: windlass.dev/v1alpha1
kind: TrainingJob
metadata: {name: volcanic}
spec: {command: [train], image: i, pod: {spec: {schedulerName: volcano}}}
---
apiVersion: windlass.dev/v1alpha1
kind: TrainingJob
metadata: {name: native}
spec: {command: [train], image: i, pod: {spec: {schedulerName: native}}}
"""
RULES = parse_scheduler_rules("volcano=respect,native=respect:native")
KINDS = {(each.api_version, each.kind): each for each in JOB_KINDS}


class Place:
    """An API server without an operator. `connection` has the operator's rights."""

    def __init__(self, api: Api, connection: Connection) -> None:
        self.api, self.connection = api, connection
        self.dependents = DependentObjects(connection, asyncio.Semaphore(4), lambda _job: None, lambda *_: None)

    async def gang(self, name: str) -> Gang:
        """A gang of the job of this name, as a replica that has just started reads it."""
        manifest = next(each for each in yaml.safe_load_all(JOBS) if each["metadata"]["name"] == name)
        resource = KINDS[manifest["apiVersion"], manifest["kind"]]
        await created(self.api, path(resource, NAMESPACE), manifest)
        found = await self.api.get(path(resource, NAMESPACE, name))
        parsed = registry.read(found, Settings(pod_groups=True, foreign_schedulers=RULES))
        assert isinstance(parsed, ParsedJob), parsed
        version = ObjectVersion(int(found["metadata"]["resourceVersion"]))
        return Gang(reference_to(resource, found), parsed, parsed.job, 7, version=version)

    async def make_dependents(self, gang: Gang) -> dict[str, str]:
        """Creates the dependent objects of a gang. Returns their uids, by kind and name."""
        wanted = Wanted(1, {each.role: each.count for each in gang.parsed.replicas}, 0, lambda: True)
        await self.dependents.make_required(gang, wanted)
        await self.dependents.make(gang, wanted, ())
        return {f"{kind} {name}": made.uid for (kind, name), made in gang.dependents.made.items()}

    async def delete_dependents(self, gang: Gang) -> None:
        """Deletes them: services and a launcher's Job as the operator does, which leaves the others to Kubernetes."""
        for (kind, name), made in gang.dependents.made.items():
            where = path(RESOURCES[made.manifest["apiVersion"], kind], NAMESPACE, name)
            if kind == "Service":
                await self.dependents.remove_services(gang, {name: made.uid})
            elif kind == "Job":
                await self.dependents.end_job({"namespace": NAMESPACE, "name": name, "uid": made.uid})
            else:
                # Kubernetes' own PodGroups have a finalizer, and no controller runs here
                await self.api.patch(where, {"metadata": {"finalizers": None}})
                await self.api.delete(where)
            with pytest.raises(ApiError, match="not found"):
                await self.api.get(where)


@pytest.fixture
def tell(apiserver: ControlPlane) -> Callable[[Callable[[Place], Awaitable[None]]], None]:
    async def told(story: Callable[[Place], Awaitable[None]]) -> None:
        access = operator_access(apiserver)
        async with apiserver.api() as api, Connection(access) as connection, asyncio.timeout(strays.TIMEOUT_S * 2):
            await create_definitions(api)
            for definition in (*crds((POD_GROUPS,)), VOLCANO):
                await created(api, path(DEFINITIONS), definition)
            for each in (*KINDS.values(), *RESOURCES.values()):
                while not await is_served(api, path(each)):  # noqa: ASYNC110 - polled
                    await asyncio.sleep(0.1)
            try:
                await story(Place(api, connection))
            finally:
                await clear(api, *map(path, KINDS.values()))

    return lambda story: asyncio.run(told(story))


async def is_served(api: Api, listed: str) -> bool:
    try:
        await api.get(listed)
    except ApiError as error:
        if error.status not in (404, 429):  # 429: its storage is being opened
            raise
        return False
    return True


@pytest.mark.parametrize("name", ["own", "elastic", "trainer"])
def test_a_state_is_written_after_the_write_of_another_and_its_object_is_deleted(tell, name: str) -> None:
    async def story(place: Place) -> None:
        gang = await place.gang(name)
        where = path(gang.reference.resource, NAMESPACE, name)
        await place.api.patch(where, {"metadata": {"annotations": {"of": "another writer"}}})
        state = JobState(gang.id, gang.number, gang.job, Status(phase=Phase.QUEUED))
        await write_state(place.connection, gang, state, {})
        found = await place.api.get(where)
        assert (found["metadata"]["annotations"]["of"], found["status"][FIELD]["revision"]) == ("another writer", 1)
        troubles: list[str] = []
        assert await delete_object(place.connection, gang, troubles.append)
        assert (gang.version.gone, troubles) == (True, [])
        with pytest.raises(ApiError, match="not found"):
            await place.api.get(where)

    tell(story)


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("own", {"PodGroup", "Service"}),
        ("volcanic", {"PodGroup", "Service"}),
        ("native", {"PodGroup", "Service"}),
        ("elastic", {"HorizontalPodAutoscaler", "PodGroup", "Service"}),
        ("exec", {"ConfigMap", "PodGroup", "Role", "RoleBinding", "ServiceAccount"}),
        ("ssh", {"ConfigMap", "Job", "PodGroup", "Secret", "Service"}),
    ],
)
def test_a_replica_that_takes_over_finds_the_dependent_objects_of_a_job(tell, name: str, kinds: set[str]) -> None:
    async def story(place: Place) -> None:
        made = await place.make_dependents(await place.gang(name))
        gang = await place.gang(name)
        found = await place.make_dependents(gang)
        assert {each.split()[0] for each in found} >= kinds
        for each, uid in found.items():
            assert each.startswith("Secret ") or uid == made[each], each
        await place.delete_dependents(gang)

    tell(story)


def test_a_claim_that_waits_gets_the_node_of_its_first_pod(tell) -> None:
    async def story(place: Place) -> None:
        claims = f"{CORE}/persistentvolumeclaims"
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        await place.api.post(claims, {"metadata": {"name": "data"}, "spec": spec})
        try:
            await choose_volumes(place.connection, NAMESPACE, [("data", "n1"), ("missing", "n1")])
            annotations = (await place.api.get(f"{claims}/data"))["metadata"]["annotations"]
            assert annotations["volume.kubernetes.io/selected-node"] == "n1"
        finally:
            await clear(place.api, claims)

    tell(story)


def test_the_leaders_pod_has_a_label(tell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_label, "is_in_cluster", lambda: True)
    monkeypatch.setattr(socket, "gethostname", lambda: "replica-1")

    async def story(place: Place) -> None:
        containers = [{"name": "operator", "image": "i"}]
        await created(place.api, f"{CORE}/serviceaccounts", {"metadata": {"name": "default"}})
        await place.api.post(f"{CORE}/pods", {"metadata": {"name": "replica-1"}, "spec": {"containers": containers}})
        troubles: list[str] = []
        for leads in (True, False):
            await leader_label.mark_leader(place.connection, NAMESPACE, troubles.append, leads=leads)
            labels: dict[str, Any] = (await place.api.get(f"{CORE}/pods/replica-1"))["metadata"].get("labels", {})
            assert (labels.get("windlass.dev/leader"), troubles) == ("true" if leads else None, [])

    tell(story)
