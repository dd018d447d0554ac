"""Removal of an installation. Jobs and the definitions of their kinds stay, unless their deletion is requested."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.connection import Connection, find_object
from windlass.backends.kubernetes.client.resources import API_SERVICES, DEFINITIONS, PODS, Resource, path
from windlass.deploy.crds import definitions
from windlass.deploy.install.resources import KINDS, display_name, resource_of
from windlass.deploy.installation import permission_objects, policy_objects
from windlass.deploy.job_policies import user_policies
from windlass.deploy.labels import is_ours
from windlass.deploy.monitoring.prometheus_operator import monitoring_objects
from windlass.deploy.network_policies import operator_policies
from windlass.deploy.operator import Setup, namespace, operator_objects
from windlass.deploy.permissions import FOREIGN_POD_GROUPS
from windlass.deploy.trainer_objects import public_objects
from windlass.jobs.kubernetes.labels import GENERATION
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.pods.pod_assembly import SCHEDULER


async def count_jobs(connection: Connection) -> dict[str, int]:
    """Number of objects by kind, for kinds that have any. Versions of a kind are counted once."""
    counted = {each.kind: await _count(connection, each) for each in {each.full_name: each for each in KINDS}.values()}
    return {kind: count for kind, count in counted.items() if count}


async def _count(connection: Connection, resource: Resource) -> int:
    try:
        reply = json.loads(await connection.request("GET", path(resource), params={"limit": "1"}))
    except ApiError as error:
        if error.is_missing:
            return 0
        raise
    return len(reply["items"]) + int(reply["metadata"].get("remainingItemCount", 0))


async def remove(connection: Connection, setup: Setup, *, delete_jobs: bool) -> AsyncIterator[str]:
    """Deletes the objects of an installation and yields their names. Raises ApiError and Unreachable.

    The API of the queries is deleted before the pods that answer it: the API server ends no namespace while it cannot
    reach an API. The operator is deleted before the objects that it needs, and before pods without a node, which no
    scheduler would place any more. `delete_jobs`: delete our definitions too, and with them every object of these kinds
    and their pods.
    """
    everything = replace(setup, mpijob_v1=True, cordon_bad_nodes=1, cull_notebooks="1h")
    for manifest in _objects(replace(everything, pod_groups=tuple(FOREIGN_POD_GROUPS))):
        if await _delete(connection, manifest):
            yield display_name(manifest)
    for manifest in public_objects():
        about = manifest["metadata"]
        there = await find_object(connection, resource_of(manifest), about["namespace"], about["name"])
        if there is not None and is_ours(there) and await _delete(connection, manifest):
            yield display_name(manifest)
    if delete_jobs:
        for name in [each.name for each in definitions()]:
            definition = await find_object(connection, DEFINITIONS, None, name)
            if definition is not None and is_ours(definition):
                await connection.delete(DEFINITIONS, None, name, propagation="Background")
                yield f"the kind {name}, with all its objects"
    elif count := await _delete_waiting_pods(connection):
        yield f"{count} pods that waited for a node; another operator of the kind creates them again"
    own = namespace(setup)
    there = await find_object(connection, resource_of(own), None, setup.namespace)
    if there is not None and is_ours(there) and await _delete(connection, own):
        yield display_name(own)


def _objects(setup: Setup) -> list[Manifest]:
    policies = [*operator_policies(setup), *policy_objects(setup), *user_policies()]
    parts = [*operator_objects(setup), *monitoring_objects(setup), *policies, *permission_objects(setup)]
    return sorted(parts, key=lambda each: each["kind"] != API_SERVICES.kind)


async def _delete_waiting_pods(connection: Connection) -> int:
    """Deletes the pods of jobs that are on no node. Returns their number."""
    waiting = await connection.list(PODS, selector=GENERATION, fields=f"spec.schedulerName={SCHEDULER},spec.nodeName=")
    for pod in waiting:
        about = pod["metadata"]
        try:
            await connection.delete(PODS, about["namespace"], about["name"], grace=0, uid=about["uid"])
        except ApiError as error:
            if not (error.is_missing or error.is_conflict):
                raise
    return len(waiting)


async def _delete(connection: Connection, manifest: Manifest) -> bool:
    """Deletes an object. Returns whether it existed."""
    resource, metadata = resource_of(manifest), manifest["metadata"]
    try:
        await connection.delete(resource, metadata.get("namespace"), metadata["name"], propagation="Background")
    except ApiError as error:
        if error.is_missing:
            return False
        raise
    return True
