"""Dependent objects of a gang: services, config maps, secrets, roles, autoscalers, and a launcher's Job."""

from __future__ import annotations

import asyncio
import base64
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from windlass.backends.kubernetes.client import resources as r
from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.connection import Connection, find_object
from windlass.backends.kubernetes.client.object_reference import ObjectReference
from windlass.backends.kubernetes.client.owners import owner_of
from windlass.backends.kubernetes.client.resources import Resource
from windlass.backends.kubernetes.gangs.gang import Gang, MadeObject
from windlass.jobs.kubernetes.foreign_schedulers import WRITTEN
from windlass.jobs.kubernetes.gang_dialects import OBJECT_KINDS
from windlass.jobs.kubernetes.kinds import registry
from windlass.jobs.kubernetes.labels import GENERATION
from windlass.jobs.kubernetes.pods.gang_secret import SECRET_KEY, SECRET_TYPE
from windlass.jobs.kubernetes.pods.node_tolerations import with_node_tolerations
from windlass.jobs.kubernetes.pods.pod_assembly import JOB_NAME, REPLICA_INDEX
from windlass.jobs.kubernetes.status.announcements import CREATED, DELETED

RESOURCES = {
    (resource.api_version, resource.kind): resource
    for resource in (
        r.SERVICES,
        r.CONFIG_MAPS,
        r.CLAIMS,
        r.SECRETS,
        r.SERVICE_ACCOUNTS,
        r.ROLES,
        r.ROLE_BINDINGS,
        r.AUTOSCALERS,
        r.JOBS,
        *(r.named(OBJECT_KINDS[each].api_version, "podgroups", OBJECT_KINDS[each].kind) for each in WRITTEN),
    )
}
_ALL = frozenset(kind for _, kind in RESOURCES)
ASK_WHO_RUNS = ("MPIJob",)
"""Kinds with a config map that lists the running pods."""
_LATE = ("Secret", "RoleBinding", "Job")
"""Kinds created last: a role binding is refused without its role, and a Job creates pods that mount the other objects.
"""
_REQUIRED = ("PersistentVolumeClaim", "ServiceAccount", "Role", "RoleBinding", "ConfigMap", "Secret")
"""Kinds created before pods. Services are not: each would delay the start of a gang by a request."""
_CHANGING = {"ConfigMap": "data", "Role": "rules"}
"""Kinds that name the members of a gang, with the field that does: they are updated when members come or go."""
_UNREAD = ("Secret",)
"""Kinds created and never read: the operator may not read the Secrets of a cluster. Their names contain the job's uid
(`pod_assembly.secret_name`), so that no other job has the same.
"""
_SSH = "kubernetes.io/ssh-auth"
_SECRET_BYTES = 32
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
    """Creator of the dependent objects of gangs. An object that the job owns stays, but what names members is updated.

    An object of the same name that the job does not own is neither used nor changed.
    """

    connection: Connection
    at_once: asyncio.Semaphore
    see_job: Callable[[dict[str, Any]], None]
    """Called with each launcher's Job that was created."""
    note: Callable[[ObjectReference, str], None]
    """Called with a job and a sentence about an object that it needs and does not own."""
    on_change: Callable[[Gang, str, str], None] = lambda _gang, _name, _verb: None
    """Called with the name of a service that was created or deleted, and with `CREATED` or `DELETED`."""

    async def make_required(self, gang: Gang, wanted: Wanted) -> None:
        """Creates the objects that pods refer to: a pod is refused without its service account.

        Raises ApiError, Unreachable.
        """
        await self._make_missing(gang, wanted, (), _REQUIRED)

    async def make(self, gang: Gang, wanted: Wanted, running: Collection[str]) -> None:
        """Creates or updates all of them. `running`: names of the pods that run. Raises ApiError, Unreachable."""
        await self._make_missing(gang, wanted, running, _ALL)
        if gang.dependents.inherited:
            await self._remove_unwanted_services(gang, wanted)
            gang.dependents.inherited = False

    async def _make_missing(self, gang: Gang, wanted: Wanted, running: Collection[str], kinds: Collection[str]) -> None:
        objects = [
            _of_generation(each, wanted) for each in registry.dependent_objects(gang.parsed, running, wanted.sizes)
        ]
        made = gang.dependents.made
        missing = [
            each
            for each in objects
            if each["kind"] in kinds
            and not _is_as_made(made.get(_name_of(each)), each)
            and (wanted.updates or _name_of(each) not in made)
        ]
        for late in (False, True):
            stage = [self._make(gang, wanted, each) for each in missing if (each["kind"] in _LATE) is late]
            # all end before an error is raised: a request that goes on could create a Job that is no longer expected
            for failed in [end for end in await asyncio.gather(*stage, return_exceptions=True) if end is not None]:
                raise failed

    async def end_job(self, about: Mapping[str, Any]) -> None:
        """Deletes a Job, with the pods that it made."""
        await self._remove(r.JOBS, about["namespace"], about["name"], about["uid"])

    async def find_services(self, gang: Gang, names: Collection[str]) -> dict[str, str]:
        """Returns the uids of the services with these names that the job owns."""
        wanted = registry.dependent_objects(gang.parsed, (), gang.sizes) if names else ()
        services = [each for each in wanted if each["kind"] == "Service" and each["metadata"]["name"] in names]
        found = await asyncio.gather(*(self._there(r.SERVICES, each) for each in services))
        owned = [each["metadata"] for each in found if each and owner_of(each) == gang.reference.owner_key]
        return {str(each["name"]): str(each["uid"]) for each in owned}

    async def remove_services(self, gang: Gang, uids: Mapping[str, str]) -> None:
        """Deletes services of a gang, given their uids by name."""
        await asyncio.gather(*(self._remove_service(gang, name, uid) for name, uid in uids.items()))

    async def _remove_unwanted_services(self, gang: Gang, wanted: Wanted) -> None:
        """Deletes the services of pods that an earlier controller has removed from a gang."""
        objects = registry.dependent_objects(gang.parsed, (), wanted.sizes)
        named = {each["metadata"]["name"] for each in objects if _has_replica_labels(each)}
        if not named:
            return
        selector = f"{JOB_NAME}={gang.parsed.name}"
        async with self.at_once:
            found = await self.connection.list(r.SERVICES, gang.reference.namespace, selector=selector)
        owned = [each["metadata"] for each in found if owner_of(each) == gang.reference.owner_key]
        if wanted.is_wanted():
            await self.remove_services(gang, {each["name"]: each["uid"] for each in owned if each["name"] not in named})

    async def _remove_service(self, gang: Gang, name: str, uid: str) -> None:
        if await self._remove(r.SERVICES, gang.reference.namespace, name, uid):
            self.on_change(gang, name, DELETED)

    async def _remove(self, resource: Resource, namespace: str, name: str, uid: str) -> bool:
        """Deletes an object; returns False if it was gone."""
        try:
            async with self.at_once:
                await self.connection.delete(resource, namespace, name, propagation="Background", uid=uid)
        except ApiError as error:
            if not (error.is_missing or error.is_conflict):  # another object has that name by now
                raise
            return False
        return True

    async def _make(self, gang: Gang, wanted: Wanted, manifest: Mapping[str, Any]) -> None:
        name = _name_of(manifest)
        give_up = time.monotonic() + _GARBAGE_COLLECTION_S
        while wanted.is_wanted():
            uid = await self._make_once(gang, wanted, manifest, wait=time.monotonic() < give_up)
            if uid is not None:
                if wanted.updates:  # else the object may have other data
                    gang.dependents.made[name] = MadeObject(manifest, uid)
                return
            await asyncio.sleep(_POLL_INTERVAL_S)

    async def _make_once(self, gang: Gang, wanted: Wanted, manifest: Mapping[str, Any], *, wait: bool) -> str | None:
        """Creates the object, or takes the one that the job owns already. Returns its uid; None: to be tried again.

        With `wait`, returns None while the name is taken by an object of another owner, which may be deleted by then.
        """
        known, kind = gang.dependents.made.get(_name_of(manifest)), manifest["kind"]
        if known is not None and kind in _CHANGING:
            if await self._change(manifest, known.uid):
                return known.uid
            del gang.dependents.made[_name_of(manifest)]
        resource = RESOURCES[manifest["apiVersion"], kind]
        try:
            async with self.at_once:
                made = await self.connection.create(resource, with_keys(manifest))
        except ApiError as error:
            if not error.is_exists:
                raise
            return "" if kind in _UNREAD else await self._take(gang, wanted, manifest, wait=wait)
        if kind == "Job":
            self.see_job(made)
        if kind == "Service":
            self.on_change(gang, made["metadata"]["name"], CREATED)
        return str(made["metadata"]["uid"])

    async def _take(self, gang: Gang, wanted: Wanted, manifest: Mapping[str, Any], *, wait: bool) -> str | None:
        """Takes the existing object of this name if the job owns it. See `_make_once`. Raises ApiError if it does not.

        An object without an owner is not waited for: no garbage collection deletes it.
        """
        resource = RESOURCES[manifest["apiVersion"], manifest["kind"]]
        there = await self._there(resource, manifest)
        if there is None:
            return None
        uid, owner = str(there["metadata"]["uid"]), owner_of(there)
        if owner != owner_of(manifest):
            if wait and owner is not None:
                return None
            sentence = _foreign_object(resource, manifest)
            self.note(gang.reference, f"cannot use an object: {sentence}")
            raise ApiError(409, "AlreadyExists", sentence)
        gang.dependents.inherited |= manifest["kind"] == "Service"
        if manifest["kind"] in _CHANGING and wanted.updates:
            return uid if await self._change(manifest, uid) else None
        if manifest["kind"] == "Job" and not await self._is_of_generation(there, manifest):
            return None
        return uid

    async def _there(self, resource: Resource, manifest: Mapping[str, Any]) -> dict[str, Any] | None:
        """Returns the present object of this name, or None."""
        about = manifest["metadata"]
        async with self.at_once:
            return await find_object(self.connection, resource, about["namespace"], about["name"])

    async def _change(self, manifest: Mapping[str, Any], uid: str) -> bool:
        """Writes the data of a config map, or the rules of a role; returns False if it does not exist any more."""
        about, name = manifest["metadata"], _CHANGING[manifest["kind"]]
        body = {"metadata": {"uid": uid}, name: manifest[name]}
        try:
            async with self.at_once:
                await self.connection.patch(
                    RESOURCES[manifest["apiVersion"], manifest["kind"]], about["namespace"], about["name"], body
                )
        except ApiError as error:
            if not (error.is_missing or error.is_conflict):
                raise
            return False
        return True

    async def _is_of_generation(self, there: dict[str, Any], manifest: Mapping[str, Any]) -> bool:
        """Tells whether a launcher's Job is that of this generation, or suspended if it should be; deletes any other.

        One without a generation was created by another operator: generation 0.
        """
        made, wanted = (each["metadata"].get("labels", {}).get(GENERATION, "0") for each in (there, manifest))
        suspended, suspends = (bool(each["spec"].get("suspend")) for each in (there, manifest))
        if (made, suspended) == (wanted, suspends):
            self.see_job(there)
            return True
        await self.end_job(there["metadata"])
        return False


def _foreign_object(resource: Resource, manifest: Mapping[str, Any]) -> str:
    """The sentence about an object that a job needs under this name, and does not own."""
    namespace, name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
    return (
        f"{resource.kind} {namespace}/{name} exists and does not belong to this job: delete it "
        f"(kubectl delete {resource.full_name} -n {namespace} {name}), or give the job another name"
    )


def _is_as_made(made: MadeObject | None, manifest: Mapping[str, Any]) -> bool:
    return made is not None and made.manifest == manifest


def _has_replica_labels(manifest: Mapping[str, Any]) -> bool:
    """Tells whether an object is the service of one pod of a job."""
    return manifest["kind"] == "Service" and REPLICA_INDEX in (manifest["metadata"].get("labels") or {})


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
    """Fills a Secret without data with new keys; returns other objects unchanged."""
    if manifest["kind"] != "Secret":
        return manifest
    if manifest.get("type") == SECRET_TYPE:
        return {**manifest, "data": {SECRET_KEY: _encoded(secrets.token_hex(_SECRET_BYTES).encode())}}
    return _with_ssh_keys(manifest) if manifest.get("type") == _SSH else manifest


def _with_ssh_keys(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """A new ECDSA P-521 key pair, as of mpi-operator."""
    key = ec.generate_private_key(ec.SECP521R1())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    data = {"ssh-privatekey": private, "ssh-publickey": public + b"\n"}
    return {**manifest, "data": {name: _encoded(value) for name, value in data.items()}}


def _encoded(value: bytes) -> str:
    return base64.b64encode(value).decode()
