"""Taking an installation away. Jobs and the definitions of their kinds stay unless somebody wants them gone."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.resources import DEFINITIONS, Resource, path
from windlass.deploy.crds import definitions
from windlass.deploy.install.installer import find_object
from windlass.deploy.install.resources import KINDS, display_name, resource_of
from windlass.deploy.installation import permission_objects
from windlass.deploy.labels import is_ours
from windlass.deploy.operator import Setup, namespace, operator_objects
from windlass.jobs.kubernetes.manifest_reader import Manifest


async def count_jobs(connection: Connection) -> dict[str, int]:
    """How many objects there are of each kind that has any, by the kind's name, versions counted once."""
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
    """Delete what an installation has made, and tell each object that went. Raises ApiError and Unreachable.

    The operator goes before what it needs. With `delete_jobs` the definitions of kinds that are ours go too, and with
    them every object of these kinds and every pod of theirs.
    """
    for manifest in [*operator_objects(setup), *permission_objects(setup)]:
        if await _gone(connection, manifest):
            yield display_name(manifest)
    if delete_jobs:
        for name in [each.name for each in definitions()]:
            definition = await find_object(connection, DEFINITIONS, None, name)
            if definition is not None and is_ours(definition):
                await connection.delete(DEFINITIONS, None, name, propagation="Background")
                yield f"the kind {name}, with all that was of it"
    own = namespace(setup)
    there = await find_object(connection, resource_of(own), None, setup.namespace)
    if there is not None and is_ours(there) and await _gone(connection, own):
        yield display_name(own)


async def _gone(connection: Connection, manifest: Manifest) -> bool:
    """Whether there was something to delete."""
    resource, metadata = resource_of(manifest), manifest["metadata"]
    try:
        await connection.delete(resource, metadata.get("namespace"), metadata["name"], propagation="Background")
    except ApiError as error:
        if error.is_missing:
            return False
        raise
    return True
