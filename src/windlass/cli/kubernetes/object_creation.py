"""Creates the objects of submitted jobs in a cluster, all of them or none."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from windlass.backends.kubernetes.client.api_errors import ApiError as Refusal
from windlass.backends.kubernetes.client.resources import CONFIG_MAPS, SECRETS, Resource
from windlass.cli.kubernetes.api_session import ApiSession
from windlass.cli.kubernetes.api_user import api_user, with_user
from windlass.cli.kubernetes.job_names import resource_of
from windlass.cli.kubernetes.job_objects import JobObject
from windlass.server.errors import ApiError, ErrorCode

Manifest = Mapping[str, Any]
_STRICT = "strict decoding error: "
"""Prefix of the API server's message about unknown fields."""


def create_objects(session: ApiSession, manifests: Sequence[Manifest], *, strict: bool = False) -> list[JobObject]:
    """Creates ConfigMaps of code, jobs, and Secrets of calls, all owned by the jobs. Raises ApiError.

    If one fails, all jobs are deleted again, and with them what they own.

    `strict`: refuse a job with a field that its definition in this cluster does not have.
    """
    return session.run(_create_all(session, manifests, strict=strict))


async def _create_all(session: ApiSession, manifests: Sequence[Manifest], *, strict: bool) -> list[JobObject]:
    # 1. Create the code, which pods of the jobs mount.
    code = [each for each in manifests if each["kind"] == CONFIG_MAPS.kind]
    secrets = [each for each in manifests if each["kind"] == SECRETS.kind]
    user = await api_user(session.connection)
    jobs = [with_user(each, user) for each in manifests if each["kind"] not in (CONFIG_MAPS.kind, SECRETS.kind)]
    await asyncio.gather(*(_ensure_code(session, each) for each in code))
    # 2. Create the jobs, and the Secrets with their owners in them: no Secret is left behind.
    outcomes = await asyncio.gather(*(_create(session, each, strict=strict) for each in jobs), return_exceptions=True)
    made = [each for each in outcomes if isinstance(each, JobObject)]
    wanted = secrets if len(made) == len(jobs) else []
    shipped = await asyncio.gather(*(_create_secret(session, each, made) for each in wanted), return_exceptions=True)
    # 3. Delete all jobs if one object was refused.
    for error in (*outcomes, *shipped):
        if isinstance(error, BaseException):
            await asyncio.gather(*(_delete(session, each) for each in made))
            raise error
    # 4. Make the jobs owners of the code.
    await asyncio.gather(*(_set_owners(session, each, made) for each in code))
    return made


async def _create_secret(session: ApiSession, secret: Manifest, jobs: Iterable[JobObject]) -> None:
    """Creates the Secret of a call, for which the pods of its jobs wait."""
    metadata = {**secret["metadata"], "ownerReferences": [_owner(job) for job in jobs]}
    try:
        await session.connection.create(SECRETS, {**secret, "metadata": metadata})
    except Refusal as error:
        if not (error.is_exists and error.unsure):
            fix = "the arguments of a function need the right to create Secrets in the namespace"
            message = f"Secret {metadata['name']} cannot be created: {error}"
            raise ApiError(ErrorCode.BAD_REQUEST, message, fix) from None


async def _create(session: ApiSession, manifest: Manifest, *, strict: bool) -> JobObject:
    resource = resource_of(manifest)
    assert resource is not None  # noqa: S101 - guaranteed by `submission.build_objects`
    try:
        return JobObject(resource, await session.connection.create(resource, manifest, strict=strict))
    except Refusal as error:
        if error.is_exists and error.unsure:  # created by our own attempt, whose answer was lost
            metadata = manifest["metadata"]
            return JobObject(resource, await session.connection.get(resource, metadata["namespace"], metadata["name"]))
        raise _explain_error(error, resource, manifest) from None


def _explain_error(error: Refusal, resource: Resource, manifest: Manifest) -> Exception:
    name = f"{resource.kind} {manifest['metadata'].get('namespace')}/{manifest['metadata'].get('name')}"
    if error.is_exists:
        about = manifest["metadata"]
        command = f"kubectl delete {resource.full_name} -n {about['namespace']} {about['name']}"
        fix = f"choose another metadata.name, or delete that one: {command}"
        return ApiError(ErrorCode.WRONG_STATE, f"{name} exists already", fix)
    if error.is_missing:
        what = "its namespace" if "namespaces" in error.message else f"the kind {resource.kind}"
        fix = "windlass operator install defines the kinds; kubectl get namespaces lists namespaces"
        return ApiError(ErrorCode.BAD_REQUEST, f"{name} cannot be created: this cluster lacks {what}", fix)
    if _STRICT in error.message:
        what = error.message.partition(_STRICT)[2]
        fix = "this cluster's definition of the kind lacks it; --validate warn submits the job without it"
        return ApiError(ErrorCode.BAD_REQUEST, f"{name} cannot be created: {what}", fix)
    return error


async def _delete(session: ApiSession, job: JobObject) -> None:
    uid = job.manifest["metadata"]["uid"]
    with contextlib.suppress(Refusal):
        await session.connection.delete(job.resource, job.namespace, job.name, uid=uid)


async def _ensure_code(session: ApiSession, code: Manifest) -> None:
    """Creates the ConfigMap of the code unless it exists; its name is derived from its content."""
    try:
        await session.connection.create(CONFIG_MAPS, code)
    except Refusal as error:
        if not error.is_exists:
            raise
        metadata = code["metadata"]
        existing = await session.connection.get(CONFIG_MAPS, metadata["namespace"], metadata["name"])
        if existing.get("binaryData") != code["binaryData"]:
            fix = f"delete it: kubectl delete configmap -n {metadata['namespace']} {metadata['name']}"
            raise ApiError(ErrorCode.WRONG_STATE, f"ConfigMap {metadata['name']} holds other code", fix) from None


async def _set_owners(session: ApiSession, code: Manifest, jobs: Iterable[JobObject]) -> None:
    """Makes the jobs owners of the code, so that it is garbage-collected with the last of them.

    Creates the ConfigMap again if an earlier owner was deleted meanwhile, and the ConfigMap with it.
    """
    owners = [_owner(job) for job in jobs]
    metadata = code["metadata"]
    body = {"metadata": {"ownerReferences": owners}}
    try:
        await session.connection.patch(CONFIG_MAPS, metadata["namespace"], metadata["name"], body, kind="strategic")
    except Refusal as error:
        if not error.is_missing:
            raise
        await session.connection.create(CONFIG_MAPS, {**code, "metadata": {**metadata, "ownerReferences": owners}})


def _owner(job: JobObject) -> dict[str, str]:
    metadata = job.manifest["metadata"]
    version, kind = job.resource.api_version, job.resource.kind
    return {"apiVersion": version, "kind": kind, "name": metadata["name"], "uid": metadata["uid"]}


def job_ids(made: Iterable[JobObject]) -> list[str]:
    """Returns the ids of jobs; an array has one id, `namespace/array`."""
    return list(dict.fromkeys(f"{each.namespace}/{each.array}" if each.array else each.id for each in made))
