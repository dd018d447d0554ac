"""Dependent objects of a gang: services, config maps, secrets, roles, autoscalers, and a launcher's Job."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from windlass.backends.kubernetes.client import resources as r
from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.owners import owner_uid
from windlass.backends.kubernetes.client.resources import Resource
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.jobs.kubernetes.kinds import registry
from windlass.jobs.kubernetes.labels import GENERATION
from windlass.jobs.kubernetes.pods.node_tolerations import with_node_tolerations

RESOURCES = {
    (resource.api_version, resource.kind): resource
    for resource in (
        r.SERVICES,
        r.CONFIG_MAPS,
        r.SECRETS,
        r.SERVICE_ACCOUNTS,
        r.ROLES,
        r.ROLE_BINDINGS,
        r.AUTOSCALERS,
        r.JOBS,
        r.named("scheduling.x-k8s.io/v1alpha1", "podgroups", "PodGroup"),
    )
}
_ALL = frozenset(kind for _, kind in RESOURCES)
ASK_WHO_RUNS = ("MPIJob",)
"""Kinds with a config map that lists the running pods."""
_LATE = ("Secret", "RoleBinding", "Job")
"""Kinds created last: a role binding is refused without its role, and a Job creates pods that mount the other objects.
"""
_REQUIRED = ("ServiceAccount", "Role", "RoleBinding", "ConfigMap", "Secret")
"""Kinds created before pods. Services are not: each would delay the start of a gang by a request."""
_UNREAD = ("Secret",)
"""Kinds created and never read: RBAC cannot grant reading by name. Secrets of an earlier job are deleted by then."""
_SSH = "kubernetes.io/ssh-auth"
_POLL_INTERVAL_S = 0.1
"""Seconds between two checks of an object that is being deleted."""
_GARBAGE_COLLECTION_S = 15.0
"""Seconds within which objects of a deleted job are garbage collected; an object that is still there then is used."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The generation for which dependent objects are created."""

    generation: int
    sizes: Mapping[str, int]
    """Replicas by role."""
    grace: int
    """Milliseconds for which a node of the gang may be unreachable."""
    is_wanted: Callable[[], bool]
    """Returns False once missing objects need not be created any more."""
    updates: bool = True
    """Whether objects that exist are updated."""


@dataclass(slots=True)
class DependentObjects:
    """Creator of the dependent objects of gangs. An object that exists stays, but its data is updated."""

    connection: Connection
    at_once: asyncio.Semaphore
    see_job: Callable[[dict[str, Any]], None]
    """Called with each launcher's Job that was created."""

    async def make_required(self, gang: Gang, wanted: Wanted) -> None:
        """Creates the objects that pods refer to: a pod is refused without its service account.

        Raises ApiError, Unreachable.
        """
        await self._make_missing(gang, wanted, (), _REQUIRED)

    async def make(self, gang: Gang, wanted: Wanted, running: Collection[str]) -> None:
        """Creates or updates all of them. `running`: names of the pods that run. Raises ApiError, Unreachable."""
        await self._make_missing(gang, wanted, running, _ALL)

    async def _make_missing(self, gang: Gang, wanted: Wanted, running: Collection[str], kinds: Collection[str]) -> None:
        objects = [
            _of_generation(each, wanted) for each in registry.dependent_objects(gang.parsed, running, wanted.sizes)
        ]
        made = gang.dependents.made
        missing = [
            each
            for each in objects
            if each["kind"] in kinds
            and made.get(_name_of(each)) != each
            and (wanted.updates or _name_of(each) not in made)
        ]
        for late in (False, True):
            stage = [self._make(gang, wanted, each) for each in missing if (each["kind"] in _LATE) is late]
            # all end before an error is raised: a request that goes on could create a Job that is no longer expected
            for failed in [end for end in await asyncio.gather(*stage, return_exceptions=True) if end is not None]:
                raise failed

    async def end_job(self, about: Mapping[str, Any]) -> None:
        """Deletes a Job, with the pods that it made."""
        await self._remove(r.JOBS, about["namespace"], about["name"], about.get("uid"))

    async def remove_services(self, namespace: str, names: Iterable[str]) -> None:
        """Deletes services by name."""
        await asyncio.gather(*(self._remove(r.SERVICES, namespace, name) for name in names))

    async def _remove(self, resource: Resource, namespace: str, name: str, uid: str | None = None) -> None:
        try:
            async with self.at_once:
                await self.connection.delete(resource, namespace, name, propagation="Background", uid=uid)
        except ApiError as error:
            if not (error.is_missing or (error.is_conflict and uid)):  # another object has that name by now
                raise

    async def _make(self, gang: Gang, wanted: Wanted, manifest: Mapping[str, Any]) -> None:
        name = _name_of(manifest)
        known = gang.dependents.made.get(name)
        give_up = time.monotonic() + _GARBAGE_COLLECTION_S
        while wanted.is_wanted():
            if await self._is_made(wanted, manifest, known, wait=time.monotonic() < give_up):
                if wanted.updates:  # else the object may have other data
                    gang.dependents.made[name] = manifest
                return
            await asyncio.sleep(_POLL_INTERVAL_S)

    async def _is_made(
        self, wanted: Wanted, manifest: Mapping[str, Any], known: Mapping[str, Any] | None, *, wait: bool
    ) -> bool:
        """Tries once. With `wait`, returns False while the name is still taken by an object of a deleted job."""
        resource = RESOURCES[manifest["apiVersion"], manifest["kind"]]
        if known is not None and manifest["kind"] == "ConfigMap":
            await self._change(manifest)
            return True
        try:
            async with self.at_once:
                made = await self.connection.create(resource, with_keys(manifest))
        except ApiError as error:
            if not error.is_exists:
                raise
            if wait and manifest["kind"] not in _UNREAD and await self._is_anothers(resource, manifest):
                return False
            if manifest["kind"] == "ConfigMap" and wanted.updates:
                await self._change(manifest)
            elif manifest["kind"] == "Job":
                await self._replace(wanted, manifest)
        else:
            if manifest["kind"] == "Job":
                self.see_job(made)
        return True

    async def _is_anothers(self, resource: Resource, manifest: Mapping[str, Any]) -> bool:
        """Tells whether the object of this name belongs to another owner, or has just been deleted."""
        there = await self._there(resource, manifest)
        return there is None or owner_uid(there) not in ("", owner_uid(manifest))

    async def _there(self, resource: Resource, manifest: Mapping[str, Any]) -> dict[str, Any] | None:
        """Returns the present object of this name, or None."""
        about = manifest["metadata"]
        try:
            async with self.at_once:
                return await self.connection.get(resource, about["namespace"], about["name"])
        except ApiError as error:
            if not error.is_missing:
                raise
            return None

    async def _change(self, manifest: Mapping[str, Any]) -> None:
        about = manifest["metadata"]
        async with self.at_once:
            await self.connection.patch(r.CONFIG_MAPS, about["namespace"], about["name"], {"data": manifest["data"]})

    async def _replace(self, wanted: Wanted, manifest: Mapping[str, Any]) -> None:
        """Creates a launcher's Job, after that of an earlier generation and its pods were deleted."""
        about = manifest["metadata"]
        while wanted.is_wanted():
            there = await self._there(r.JOBS, manifest)
            if there is None:
                async with self.at_once:
                    self.see_job(await self.connection.create(r.JOBS, manifest))
                return
            if owner_uid(there) != owner_uid(manifest):
                raise ApiError(409, "AlreadyExists", f"the Job {about['name']} exists and belongs to another object")
            if there["metadata"].get("labels", {}).get(GENERATION) == about["labels"][GENERATION]:
                self.see_job(there)
                return
            await self.end_job(there["metadata"])
            await asyncio.sleep(_POLL_INTERVAL_S)


def _name_of(manifest: Mapping[str, Any]) -> tuple[str, str]:
    return manifest["kind"], manifest["metadata"]["name"]


def _of_generation(manifest: Mapping[str, Any], wanted: Wanted) -> Mapping[str, Any]:
    """Completes a launcher's Job: its generation, as a label of the Job and its pods, and their tolerations.

    Other objects serve all generations.
    """
    if manifest["kind"] != "Job":
        return manifest
    template = manifest["spec"]["template"]
    label = {GENERATION: str(wanted.generation)}
    pod_spec = with_node_tolerations(template["spec"], wanted.grace)
    marked = {**template, "metadata": _labelled(template.get("metadata") or {}, label), "spec": pod_spec}
    about = _labelled(manifest["metadata"], label)
    return {**manifest, "metadata": about, "spec": {**manifest["spec"], "template": marked}}


def _labelled(about: Mapping[str, Any], label: Mapping[str, str]) -> dict[str, Any]:
    return {**about, "labels": {**(about.get("labels") or {}), **label}}


def with_keys(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """Fills an empty SSH secret with a new ECDSA P-521 key pair, as mpi-operator does; returns others unchanged."""
    if manifest["kind"] != "Secret" or manifest.get("type") != _SSH:
        return manifest
    key = ec.generate_private_key(ec.SECP521R1())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    data = {"ssh-privatekey": private, "ssh-publickey": public + b"\n"}
    return {**manifest, "data": {name: base64.b64encode(value).decode() for name, value in data.items()}}
