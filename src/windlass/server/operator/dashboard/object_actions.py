"""Changes of jobs by users: writes of the jobs' objects with the user's own token."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

from windlass.backends.kubernetes.backend import KubernetesBackend
from windlass.backends.kubernetes.client.access import Access, Identity
from windlass.backends.kubernetes.client.api_errors import ApiError as Refusal
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.object_reference import OWN_KIND, ObjectReference, reference_to
from windlass.backends.kubernetes.client.resources import Resource
from windlass.backends.kubernetes.client.reviews import AccessRight, User, review_self
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.gangs.name_suffix import name_suffix
from windlass.backends.kubernetes.gangs.repeated_object import owned_by, repeated_object, shipped_objects
from windlass.backends.port import BackendError
from windlass.jobs.kubernetes.job_patches import action_patch, priority_patch
from windlass.server.errors import ApiError, ErrorCode
from windlass.server.job_update import JobUpdate, updated_job
from windlass.server.operator.dashboard.user_sessions import UserSession
from windlass.server.operator.queries.authorization import Authorizer

_ARRIVAL_S = 2.0
"""Longest time for which the answer to a rerun waits until the operator has seen the new object."""
_POLL_INTERVAL_S = 0.02
_RERUN_S, _CODE_S = 45.0, 5.0
"""Seconds for a second run, and for the change of each object with its code or call."""


@dataclass(frozen=True, slots=True)
class ObjectActions:
    """Cancels, suspends, resumes and repeats jobs of our kinds, and changes priorities.

    Methods raise ApiError, BackendError.
    """

    backend: KubernetesBackend
    authorizer: Authorizer

    async def refusals(self, user: User, job_id: str) -> dict[str, str]:
        """Reasons why the user may not change or repeat a job, by `change` and `rerun`; none for what the user may."""
        found: dict[str, str] = {}
        for name, verb in (("change", "patch"), ("rerun", "create")):
            try:
                await self.authorizer.require(user, _right(verb, self._find(job_id)), "edit")
            except ApiError as error:
                found[name] = f"{error.message}: {error.fix}"
        return found

    async def apply(self, session: UserSession, verb: str, job_id: str) -> None:
        """Cancels, suspends or resumes one job by a patch of its object, if the user may."""
        gang = self._find(job_id)
        job = gang.reference
        patch = action_patch(verb, job.resource.kind, session.user.name)
        async with self._as_user(session, "patch", gang, f"windlass {verb} {job_id}") as connection:
            await connection.patch(job.resource, job.namespace, job.name, patch)

    async def set_priority(self, session: UserSession, job_id: str, priority: int) -> None:
        """Changes the number of a TrainingJob, if its state, its queue and the rights of the user allow it."""
        gang = self._find(job_id)
        job = gang.reference
        edit = f"kubectl edit {job.resource.full_name} -n {job.namespace} {job.name}"
        async with self._as_user(session, "patch", gang, edit) as connection:
            self._check_priority(gang, priority, edit)
            await connection.patch(job.resource, job.namespace, job.name, priority_patch(priority))

    def _check_priority(self, gang: Gang, priority: int, edit: str) -> None:
        """Raises ApiError if a number would have no effect, or not the intended one. `edit`: opens the object."""
        if gang.reference.resource.kind != OWN_KIND or gang.parsed.priority_class:
            of_class = f"the PriorityClass {gang.parsed.priority_class or 'of its pods'}"
            message = f"{gang.id} has the priority of {of_class}, and a number would have no effect"
            raise ApiError(ErrorCode.WRONG_STATE, message, f"name another class in its object: {edit}")
        updated_job(gang.decided_state, JobUpdate(priority=priority))
        namespace = gang.reference.namespace
        queues = self.backend.monitor.lookups.of(namespace).queues_of(namespace)
        if fault := queues.allowed_priority(gang.job.queue, priority)[1]:
            raise ApiError(ErrorCode.REFUSED, f"{gang.id} {fault}")

    async def rerun(self, session: UserSession, job_id: str) -> str:
        """Creates the object of an ended job again, if the user may. Returns the id of the new job."""
        gang = self._find(job_id)
        try:
            async with asyncio.timeout(_RERUN_S):
                made = await self._repeat(session, gang)
        except TimeoutError:
            job, message = gang.reference, f"whether {job_id} runs again is unknown: no answer within {_RERUN_S:g} s"
            fix = f"look before you repeat this: kubectl get {job.resource.full_name} -n {job.namespace}"
            raise ApiError(ErrorCode.GONE, message, fix) from None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ARRIVAL_S):
                while self.backend.jobs.get(made.job_id) is None:  # noqa: ASYNC110 - the store has no event
                    await asyncio.sleep(_POLL_INTERVAL_S)
        return made.job_id

    async def _repeat(self, session: UserSession, gang: Gang) -> ObjectReference:
        job = gang.reference
        by_hand = f"kubectl get {job.resource.full_name} -n {job.namespace} {job.name} -o yaml, and windlass submit"
        async with self._as_user(session, "create", gang, by_hand) as connection:
            manifest = await connection.get(job.resource, job.namespace, job.name)
            again = repeated_object(manifest, gang.job.name, gang.id, session.user.name, name_suffix())
            created = await create_once(connection, job.resource, again)
            await keep_shipped(connection, gang, owned_by(created))
        return reference_to(job.resource, created)

    def _find(self, job_id: str) -> Gang:
        gang = self.backend.jobs.get(job_id)
        if gang is None:
            message = f"{job_id} has no object that could be changed"
            raise ApiError(ErrorCode.WRONG_STATE, message, "change the objects that own its pods, with kubectl")
        return gang

    @contextlib.asynccontextmanager
    async def _as_user(self, session: UserSession, verb: str, gang: Gang, instead: str) -> AsyncIterator[Connection]:
        """A connection with the token of a user who may do this to the object. `instead`: a command that does it."""
        await self.authorizer.require(session.user, _right(verb, gang), "edit")
        access = await _access_of(self.backend.connection.access, session.token)
        async with Connection(access, limit=1) as connection:
            if (await review_self(connection)).user.name != session.user.name:
                message = f"the API server does not take the token of {session.user.name} from the operator"
                raise ApiError(ErrorCode.NOT_ALLOWED, message, f"use the command line: {instead}")
            try:
                yield connection
            except Refusal as error:  # of the user's own request
                raise ApiError(ErrorCode.WRONG_STATE, f"the API server refuses to change {gang.id}: {error}") from None


def _right(verb: str, gang: Gang) -> AccessRight:
    """The right to change the object of a job, or to create another one beside it."""
    job = gang.reference
    name = "" if verb == "create" else job.name
    return AccessRight(verb, job.resource.plural, job.namespace, name, job.resource.group)


async def create_once(connection: Connection, resource: Resource, manifest: dict[str, Any]) -> dict[str, Any]:
    """Creates an object with a name of its own, whose first answer may be lost. Raises BackendError."""
    try:
        return await connection.create(resource, manifest)
    except Refusal as error:
        if not (error.is_exists and error.unsure):
            raise
        about = manifest["metadata"]
        return await connection.get(resource, about["namespace"], about["name"])


async def keep_shipped(connection: Connection, gang: Gang, patch: dict[str, Any]) -> None:
    """Adds an owner to the shipped code and call of a job, which are deleted with their last owner.

    A user who may not change ConfigMaps or Secrets has a second run whose code ends with the object of the first. So
    has one whose changes are not answered: an error would tell the user that there is no second run.
    """
    for resource, name in shipped_objects(gang.parsed):
        with contextlib.suppress(BackendError):
            namespace = gang.reference.namespace
            await connection.patch(resource, namespace, name, patch, kind="strategic", within=_CODE_S)


async def _access_of(access: Access, token: str) -> Access:
    """Access to the same API server with a user's token. Raises AccessError."""
    own = await access.identify(False)
    identity = Identity(f"Bearer {token}", None if own.tls is None else _without_certificate(own.tls))

    async def identify(_renew: bool) -> Identity:  # noqa: FBT001 - its only argument
        return identity

    return replace(access, identify=identify)


def _without_certificate(tls: ssl.SSLContext) -> ssl.SSLContext:
    """A context that trusts the same authorities, without the operator's own client certificate."""
    made = ssl.create_default_context(cadata=b"".join(tls.get_ca_certs(binary_form=True)) or None)
    made.verify_flags, made.check_hostname = tls.verify_flags, tls.check_hostname
    made.verify_mode = tls.verify_mode
    return made
