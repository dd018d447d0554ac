"""Stored objects outlast an upgrade of their definitions, and a rollback, on a real API server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import strays
from deploy.samples import contains, place, samples_of
from earlier_commits import WITHOUT_CHECKSUMS, definitions_of
from windlass.backends.kubernetes.client.access import from_kubeconfig
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.gangs.stored_state import FIELD, Stored, to_patch
from windlass.controlplane.api import Api, ApiError
from windlass.controlplane.cluster import ControlPlane
from windlass.core.model.status import Phase, Status
from windlass.deploy.crds import DEFAULT, crds
from windlass.deploy.install.installer import apply
from windlass.deploy.install.readiness import wait_until_admitted
from windlass.deploy.install.resources import job_kinds

STATE = to_patch(Stored(7, 1, Status(phase=Phase.QUEUED)))
UPGRADED = ("mpijobs", "pytorchjobs", "queues", "trainingjobs", "trainjobs")
"""Kinds of every API group; the schemas of Kubeflow's other kinds have the same parts."""
KINDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LAUNCHER = {"Launcher": {"replicas": 1, "template": {"spec": {"containers": [{"name": "mpi", "image": "pi"}]}}}}
Definitions = Sequence[dict[str, Any]]


def upgraded(definitions: Definitions) -> Definitions:
    return [each for each in definitions if each["spec"]["names"]["plural"] in UPGRADED]


async def define(plane: ControlPlane, definitions: Definitions) -> None:
    async with Connection(from_kubeconfig(str(plane.kubeconfig))) as connection:
        async for _ in apply(connection, definitions, take_over=True):
            pass
        await wait_until_admitted(connection, "default", job_kinds(definitions))


async def write(api: Api, manifest: dict[str, Any]) -> tuple[Any, Any]:
    """Reads and writes an object, and the state of a job in its status; returns both as they are stored."""
    where = place(manifest, manifest["metadata"]["name"])
    found = await api.get(where)
    found["metadata"]["labels"] = {"written": "again"}
    found = await api.request("PUT", where, found)
    if manifest["kind"].endswith("Job"):
        found = await api.patch(f"{where}/status", {"status": {FIELD: STATE}})
    return found["spec"], found.get("status", {}).get(FIELD)


async def delete(api: Api, manifests: Definitions) -> None:
    for each in manifests:
        with contextlib.suppress(ApiError):  # there is none
            await api.delete(place(each, each["metadata"]["name"]))


def test_objects_outlast_an_upgrade_of_their_definitions_and_a_rollback(
    run_on_api: Any, with_kinds: ControlPlane, tmp_path: Path
) -> None:
    earlier = upgraded([*definitions_of(WITHOUT_CHECKSUMS, tmp_path).values()])
    now, manifests = upgraded(crds(DEFAULT)), samples_of(earlier)

    async def story(api: Api) -> None:
        await delete(api, manifests)
        try:
            await define(with_kinds, earlier)
            for each in manifests:
                await api.post(place(each), each)
            written = [await write(api, each) for each in manifests]
            assert [state for _, state in written if state], "no job has a state"
            for definitions in (now, earlier):
                await define(with_kinds, definitions)
                for each, before in zip(manifests, written, strict=True):
                    assert contains(await write(api, each), before), f"{each['kind']} {each['metadata']['name']}"
        finally:
            await define(with_kinds, now)
            await delete(api, manifests)

    run_on_api(story)


def test_an_mpijob_of_another_definition_keeps_its_version_when_ours_replaces_it(
    run_on_api: Any, with_kinds: ControlPlane
) -> None:
    ours = [each for each in crds(DEFAULT) if each["spec"]["names"]["plural"] == "mpijobs"]

    async def story(api: Api) -> None:
        for version in ("v1", "v2beta1"):
            job = {"apiVersion": f"kubeflow.org/{version}", "kind": "MPIJob"}
            job |= {"metadata": {"name": "pi", "namespace": "default"}, "spec": {"mpiReplicaSpecs": {}}}
            try:
                await remove(api, ours[0]["metadata"]["name"])
                await define(with_kinds, [definition_of_one_version(ours[0], version)])
                await api.post(place(job), job)
                await define(with_kinds, ours)
                for each in ("v1", "v2beta1"):
                    assert await dialect_in(api, place(job | {"apiVersion": f"kubeflow.org/{each}"}, "pi")) == version
            finally:
                await define(with_kinds, ours)
                await delete(api, [job])

    run_on_api(story)


def test_an_operator_with_one_version_of_mpijob_defines_it_again_when_it_comes_back(
    run_on_api: Any, with_kinds: ControlPlane
) -> None:
    """The API server refuses a definition without a version in which it has stored objects."""
    ours = [each for each in crds(DEFAULT) if each["spec"]["names"]["plural"] == "mpijobs"]
    name = ours[0]["metadata"]["name"]

    async def story(api: Api) -> None:
        for version in ("v1", "v2beta1"):
            theirs = definition_of_one_version(ours[0], version)
            job = {"apiVersion": f"kubeflow.org/{version}", "kind": "MPIJob"}
            job |= {"metadata": {"name": "pi", "namespace": "default"}, "spec": {"mpiReplicaSpecs": LAUNCHER}}
            try:
                await remove(api, name)
                await define(with_kinds, [theirs])
                await define(with_kinds, ours)
                await api.post(place(job), job)
                await define(with_kinds, [theirs])
                assert (await api.get(f"{KINDS}/{name}"))["status"]["storedVersions"] == [version]
                assert contains(await api.get(place(job, "pi")), job)
            finally:
                await remove(api, name)
                await define(with_kinds, ours)

    run_on_api(story)


async def dialect_in(api: Api, path: str) -> str:
    """The version that an MPIJob says it has been created with, once the API server serves the newest definition."""
    async with asyncio.timeout(strays.TIMEOUT_S * 2):
        while "dialect" not in (spec := (await api.get(path))["spec"]):  # noqa: ASYNC110 - polled
            await asyncio.sleep(0.1)
    return str(spec["dialect"])


def definition_of_one_version(ours: dict[str, Any], version: str) -> dict[str, Any]:
    """A definition like those of Kubeflow's operators, of which each has one version of MPIJob."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    only = {"name": version, "served": True, "storage": True, "subresources": {"status": {}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}}
    spec = {**ours["spec"], "versions": [{**only, "schema": schema}]}
    about = {"name": ours["metadata"]["name"]}
    return {"apiVersion": ours["apiVersion"], "kind": ours["kind"], "metadata": about, "spec": spec}


async def remove(api: Api, name: str) -> None:
    """Deletes a definition, with its objects."""
    path = f"{KINDS}/{name}"
    with contextlib.suppress(ApiError):
        await api.delete(path)
        while await api.get(path):  # noqa: ASYNC110 - polled
            await asyncio.sleep(0.1)
