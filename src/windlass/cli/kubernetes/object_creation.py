"""Making the objects of jobs in a cluster, all of them or none."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from windlass.backends.kubernetes.client.api_errors import ApiError as Refusal
from windlass.backends.kubernetes.client.resources import CONFIG_MAPS, Resource
from windlass.cli.kubernetes.api_session import ApiSession
from windlass.cli.kubernetes.job_names import resource_of
from windlass.cli.kubernetes.job_objects import JobObject
from windlass.server.errors import ApiError, Code

Manifest = Mapping[str, Any]
_STRICT = "strict decoding error: "
"""What the API server says before the fields that it does not know."""


def create_objects(reach: ApiSession, manifests: Sequence[Manifest], *, strict: bool = False) -> list[JobObject]:
    """Create them: code first, then jobs, which own it. If one cannot be, none is there. Raises ApiError.

    `strict`: a job with a field that its definition in this cluster lacks cannot be.
    """
    return reach.do(_make(reach, manifests, strict=strict))


async def _make(reach: ApiSession, manifests: Sequence[Manifest], *, strict: bool) -> list[JobObject]:
    code = [each for each in manifests if each["kind"] == CONFIG_MAPS.kind]
    jobs = [each for each in manifests if each["kind"] != CONFIG_MAPS.kind]
    await asyncio.gather(*(_hold(reach, each) for each in code))
    outcomes = await asyncio.gather(*(_create(reach, each, strict=strict) for each in jobs), return_exceptions=True)
    made = [each for each in outcomes if isinstance(each, JobObject)]
    for trouble in outcomes:
        if isinstance(trouble, BaseException):
            await asyncio.gather(*(_take_back(reach, each) for each in made))
            raise trouble
    await asyncio.gather(*(_own(reach, each, made) for each in code))
    return made


async def _create(reach: ApiSession, manifest: Manifest, *, strict: bool) -> JobObject:
    resource = resource_of(manifest)
    assert resource is not None  # noqa: S101 - whoever hands them in has seen to it
    try:
        return JobObject(resource, await reach.connection.create(resource, manifest, strict=strict))
    except Refusal as error:
        if error.is_exists and error.unsure:  # an attempt of ours, whose answer was lost
            metadata = manifest["metadata"]
            return JobObject(resource, await reach.connection.get(resource, metadata["namespace"], metadata["name"]))
        raise _because(error, resource, manifest) from None


def _because(error: Refusal, resource: Resource, manifest: Manifest) -> Exception:
    name = f"{resource.kind} {manifest['metadata'].get('namespace')}/{manifest['metadata'].get('name')}"
    if error.is_exists:
        about = manifest["metadata"]
        command = f"kubectl delete {resource.full_name} -n {about['namespace']} {about['name']}"
        fix = f"choose another metadata.name, or delete that one: {command}"
        return ApiError(Code.WRONG_STATE, f"there is a {name} already", fix)
    if error.is_missing:
        what = "its namespace" if "namespaces" in error.message else f"the kind {resource.kind}"
        fix = "windlass operator install defines the kinds; kubectl get namespaces lists namespaces"
        return ApiError(Code.BAD_REQUEST, f"{name} cannot be made: this cluster lacks {what}", fix)
    if _STRICT in error.message:
        what = error.message.partition(_STRICT)[2]
        fix = "this cluster's definition of the kind lacks it; --validate warn hands the job in without"
        return ApiError(Code.BAD_REQUEST, f"{name} cannot be made: {what}", fix)
    return error


async def _take_back(reach: ApiSession, job: JobObject) -> None:
    uid = job.manifest["metadata"]["uid"]
    with contextlib.suppress(Refusal):
        await reach.connection.delete(job.resource, job.namespace, job.name, uid=uid)


async def _hold(reach: ApiSession, code: Manifest) -> None:
    """Have the code there. Its name tells what it holds: who had the same before us has made it."""
    try:
        await reach.connection.create(CONFIG_MAPS, code)
    except Refusal as error:
        if not error.is_exists:
            raise
        metadata = code["metadata"]
        there = await reach.connection.get(CONFIG_MAPS, metadata["namespace"], metadata["name"])
        if there.get("binaryData") != code["binaryData"]:
            fix = f"delete it: kubectl delete configmap -n {metadata['namespace']} {metadata['name']}"
            raise ApiError(Code.WRONG_STATE, f"ConfigMap {metadata['name']} holds other code", fix) from None


async def _own(reach: ApiSession, code: Manifest, jobs: Iterable[JobObject]) -> None:
    """The code goes when the last of its jobs goes. Another's may have gone, and the code with it, since we looked."""
    owners = [_owner(job) for job in jobs]
    metadata = code["metadata"]
    body = {"metadata": {"ownerReferences": owners}}
    try:
        await reach.connection.patch(CONFIG_MAPS, metadata["namespace"], metadata["name"], body, kind="strategic")
    except Refusal as error:
        if not error.is_missing:
            raise
        await reach.connection.create(CONFIG_MAPS, {**code, "metadata": {**metadata, "ownerReferences": owners}})


def _owner(job: JobObject) -> dict[str, str]:
    metadata = job.manifest["metadata"]
    version, kind = job.resource.api_version, job.resource.kind
    return {"apiVersion": version, "kind": kind, "name": metadata["name"], "uid": metadata["uid"]}


def job_ids(made: Iterable[JobObject]) -> list[str]:
    """The jobs' ids, an array's own once: `namespace/array`."""
    return list(dict.fromkeys(f"{each.namespace}/{each.array}" if each.array else each.id for each in made))
