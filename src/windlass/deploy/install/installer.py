"""Server-side apply of an installation's objects."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.connection import MANAGER, Connection, find_object
from windlass.backends.kubernetes.client.resources import (
    DEFINITIONS,
    MUTATING_BINDINGS,
    MUTATING_POLICIES,
    NAMESPACES,
    PROMETHEUS_RULES,
    SERVICE_MONITORS,
    path,
)
from windlass.backends.kubernetes.client.retries import APPLY_PATCH
from windlass.backends.kubernetes.served_kinds import RUNTIMES
from windlass.deploy.install.readiness import wait_until_established
from windlass.deploy.install.resources import display_name, resource_of
from windlass.deploy.labels import is_ours
from windlass.deploy.trainer_objects import NAMESPACE as TRAINER_NAMESPACE
from windlass.jobs.kubernetes.manifest_reader import Manifest

_OPTIONAL = (MUTATING_POLICIES, MUTATING_BINDINGS, SERVICE_MONITORS, PROMETHEUS_RULES)
"""Kinds that older API servers lack, or clusters without the Prometheus operator."""
_SERVER_FIELDS = ("managedFields", "resourceVersion", "generation")


class ApplyOutcome(StrEnum):
    """Effect of applying an object, or of a dry run."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    LEFT = "left as it is"
    """The object exists and belongs to another installation, or to the administrator."""
    UNSERVED = "left out"
    """The cluster lacks the kind of an object that is not necessary."""


@dataclass(frozen=True, slots=True)
class AppliedObject:
    """Name of an object and the effect on it."""

    name: str
    change: ApplyOutcome


async def apply(
    connection: Connection, objects: Sequence[Manifest], *, dry_run: bool = False, take_over: bool = False
) -> AsyncIterator[AppliedObject]:
    """Applies objects in their order, server-side. Raises ApiError, Unreachable, InstallError.

    Objects of a kind that is among them wait until the API serves the kind. An existing namespace of another owner is
    left as it is, and so are definitions, except with `take_over`, and the trainer's own objects. An existing runtime
    is left, too: its image and size are the administrator's. A definition that is replaced keeps the version in which
    objects are stored. `dry_run`: the API server validates without changes.
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
        return ApplyOutcome.CREATED  # a dry run would fail: the namespace or the kind may be missing
    protected = (NAMESPACES,) if take_over else (NAMESPACES, DEFINITIONS)
    is_kept = resource in protected or metadata.get("namespace") == TRAINER_NAMESPACE
    if before is not None and (resource in RUNTIMES or (is_kept and not is_ours(before))):
        return ApplyOutcome.LEFT
    if before is not None and resource == DEFINITIONS:
        manifest = _with_stored_version(manifest, before)
    params = {"fieldManager": MANAGER, "force": "true", **({"dryRun": "All"} if dry_run else {})}
    where = path(resource, metadata.get("namespace"), metadata["name"])
    try:
        reply = await connection.request("PATCH", where, body=manifest, params=params, content_type=APPLY_PATCH)
    except ApiError as error:
        if not (error.is_missing and resource in _OPTIONAL):
            raise
        return ApplyOutcome.UNSERVED
    if before is None:
        return ApplyOutcome.CREATED
    return (
        ApplyOutcome.UNCHANGED
        if _without_server_fields(json.loads(reply)) == _without_server_fields(before)
        else ApplyOutcome.CHANGED
    )


def _with_stored_version(definition: Manifest, before: Manifest) -> Manifest:
    """The definition, which stores objects in the version in which they are stored, if it has that version.

    The API server refuses a definition without a version in which objects were stored: an operator with one version of
    MPIJob could not define it again when it comes back.
    """
    stored = next((each["name"] for each in before["spec"]["versions"] if each["storage"]), "")
    versions = definition["spec"]["versions"]
    if stored not in [each["name"] for each in versions]:
        return definition
    kept = [{**each, "storage": each["name"] == stored} for each in versions]
    return {**definition, "spec": {**definition["spec"], "versions": kept}}


def _without_server_fields(manifest: Manifest) -> Manifest:
    """The object without status and without fields that the API server manages."""
    metadata = {name: value for name, value in manifest["metadata"].items() if name not in _SERVER_FIELDS}
    return {**{name: value for name, value in manifest.items() if name != "status"}, "metadata": metadata}
