"""Applying: every object as its table has it, whether it is there already or not."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.connection import MANAGER, Connection
from windlass.backends.kubernetes.client.resources import DEFINITIONS, NAMESPACES, Resource, path
from windlass.backends.kubernetes.client.retries import APPLY_PATCH
from windlass.deploy.install.readiness import wait_until_established
from windlass.deploy.install.resources import display_name, resource_of
from windlass.deploy.labels import is_ours
from windlass.jobs.kubernetes.manifest_reader import Manifest

_OF_THE_SERVER = ("managedFields", "resourceVersion", "generation")


class ApplyOutcome(StrEnum):
    """What applying did to an object, or would do."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    LEFT = "left as it is"
    """It was there before, and is not of an installation of ours."""


@dataclass(frozen=True, slots=True)
class AppliedObject:
    """One object and what became of it."""

    name: str
    change: ApplyOutcome


async def apply(
    connection: Connection, objects: Sequence[Manifest], *, dry_run: bool = False, take_over: bool = False
) -> AsyncIterator[AppliedObject]:
    """Apply objects in their order, server-side. Raises ApiError, Unreachable, and what `until_established` raises.

    An object of a kind that is among them waits until the API serves the kind. A namespace that is there and not ours
    is left as it is, and so are definitions unless we `take_over`. `dry_run`: the API server says what would be, and
    changes nothing.
    """
    awaited = [each["metadata"]["name"] for each in objects if each["kind"] == DEFINITIONS.kind]
    for manifest in objects:
        if awaited and not dry_run and manifest["kind"] != DEFINITIONS.kind:
            await wait_until_established(connection, awaited)
            awaited = []
        yield AppliedObject(
            display_name(manifest), await _applied(connection, manifest, dry_run=dry_run, take_over=take_over)
        )
    if awaited and not dry_run:
        await wait_until_established(connection, awaited)


async def _applied(connection: Connection, manifest: Manifest, *, dry_run: bool, take_over: bool) -> ApplyOutcome:
    resource, metadata = resource_of(manifest), manifest["metadata"]
    before = await find_object(connection, resource, metadata.get("namespace"), metadata["name"])
    if before is None and dry_run:
        return ApplyOutcome.CREATED  # the API server could not say: its namespace or its kind may not be there yet
    kept = (NAMESPACES,) if take_over else (NAMESPACES, DEFINITIONS)
    if before is not None and resource in kept and not is_ours(before):
        return ApplyOutcome.LEFT
    params = {"fieldManager": MANAGER, "force": "true", **({"dryRun": "All"} if dry_run else {})}
    where = path(resource, metadata.get("namespace"), metadata["name"])
    reply = await connection.request("PATCH", where, body=manifest, params=params, content_type=APPLY_PATCH)
    if before is None:
        return ApplyOutcome.CREATED
    return ApplyOutcome.UNCHANGED if _said(json.loads(reply)) == _said(before) else ApplyOutcome.CHANGED


async def find_object(connection: Connection, resource: Resource, namespace: str | None, name: str) -> Manifest | None:
    """The object, if it is there, and if there is such a kind."""
    try:
        return await connection.get(resource, namespace, name)
    except ApiError as error:
        if error.is_missing:
            return None
        raise


def _said(manifest: Manifest) -> Manifest:
    """What somebody has said of an object, without what the API server notes beside it."""
    metadata = {name: value for name, value in manifest["metadata"].items() if name not in _OF_THE_SERVER}
    return {**{name: value for name, value in manifest.items() if name != "status"}, "metadata": metadata}
