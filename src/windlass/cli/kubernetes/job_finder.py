"""Finds the objects of named jobs, their pods, and the nearest names of unknown ones."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from windlass.backends.kubernetes.client.api_errors import ApiError as Refusal
from windlass.backends.kubernetes.client.connection import list_if_served
from windlass.backends.kubernetes.client.object_reference import job_id
from windlass.backends.kubernetes.client.resources import PODS, Resource
from windlass.cli.kubernetes.api_session import ApiSession
from windlass.cli.kubernetes.job_names import OWN_KIND, RESOURCES, JobName, parse_job_name, resources_of
from windlass.cli.kubernetes.job_objects import JobObject
from windlass.core.model.status import HOLDING, JobState, Phase
from windlass.jobs.kubernetes import labels
from windlass.jobs.kubernetes.pods.pod_assembly import JOB_NAME
from windlass.jobs.syntax.names import nearest
from windlass.server.errors import ApiError, ErrorCode
from windlass.server.operator.job_names import choose_only

_OWN = resources_of(OWN_KIND)[0]


class JobFinder:
    """A search for jobs by name. It covers one namespace unless a name contains another."""

    def __init__(self, session: ApiSession, namespace: str) -> None:
        self.session = session
        self.namespace = namespace

    def find(self, text: str) -> list[JobObject]:
        """Returns the job of a name or an id, or an array's members by index; [] if there is none. Raises ApiError."""
        for each in parse_job_name(text, self.namespace):
            if found := self.session.run(self._find(each)):
                return found
        return []

    def get(self, text: str) -> list[JobObject]:
        """Returns the same as `find`, but raises ApiError NO_SUCH_JOB if there is none."""
        found = self.find(text)
        if not found:
            raise self.unknown_error(text)
        return found

    def unknown_error(self, text: str) -> ApiError:
        """Returns the error for a name that matches no job."""
        likely = parse_job_name(text, self.namespace)
        if not likely:
            return ApiError(
                ErrorCode.NO_SUCH_JOB, f"{text[:80]!r} is not a valid job name", "write NAME or NAMESPACE/NAME"
            )
        try:
            known = self.all(None)
        except ApiError:  # without the permission to list jobs, no similar name is suggested
            known = []
        return unknown_job_error(text, likely[0], known)

    def id_of(self, text: str) -> str:
        """Returns the id of a job whose object was deleted. Raises ApiError NO_SUCH_JOB."""
        likely = parse_job_name(text, self.namespace)
        if not likely:
            raise self.unknown_error(text)
        return job_id(likely[0].kind or _OWN.kind, likely[0].namespace, likely[0].name)

    def all(self, namespace: str | None) -> list[JobObject]:
        """Returns the jobs of a namespace or, with None, of all (of the user's own if listing all is forbidden)."""
        try:
            return self.session.run(self._all(namespace))
        except ApiError as error:
            if error.code is not ErrorCode.NOT_ALLOWED or namespace is not None:
                raise
        return self.session.run(self._all(self.namespace))

    def pods(self, found: JobObject) -> list[dict[str, Any]]:
        """Returns the existing pods of a job, of any generation."""
        return self.session.run(list_pods(self.session, found))

    async def _find(self, wanted: JobName) -> list[JobObject]:
        candidates = resources_of(wanted.kind)
        existing = await asyncio.gather(*(self._get(kind, wanted) for kind in candidates))
        if found := next(filter(None, existing), None):
            return [found]
        return await self._by_job_name(wanted) if _OWN in candidates else []

    async def _get(self, resource: Resource, wanted: JobName) -> JobObject | None:
        try:
            manifest = await self.session.connection.get(resource, wanted.namespace, wanted.name)
        except Refusal as error:
            if error.is_missing or (error.is_forbidden and resource != _OWN) or error.is_invalid:
                return None
            raise
        return JobObject(resource, manifest)

    async def _by_job_name(self, wanted: JobName) -> list[JobObject]:
        """Returns the object of a job name, or the members of an array of that name.

        Every submission creates objects with a new name; the name of the job is in their metadata. Of several jobs of a
        name the living one is meant; if none lives, the latest. Raises ApiError if several live.
        """
        here = await self._list(_OWN, wanted.namespace)
        if members := [each for each in here if each.array == wanted.name]:
            return sorted(members, key=_index)
        named: dict[str, list[JobObject]] = {}
        for each in sorted((each for each in here if each.job_name == wanted.name), key=lambda each: each.created):
            named.setdefault(_id(each, wanted.name), []).append(each)
        living = [job for job, members in named.items() if not all(each.ended for each in members)]
        meant = living or list(named)[-1:]
        return sorted(named[choose_only(wanted.name, meant)], key=_index) if meant else []

    async def _all(self, namespace: str | None) -> list[JobObject]:
        listed = await asyncio.gather(*(self._list(kind, namespace) for kind in RESOURCES))
        return _without_duplicates(found for some in listed for found in some)

    async def _list(self, resource: Resource, namespace: str | None) -> list[JobObject]:
        """Returns the jobs of one kind; none if the cluster does not define the kind."""
        listed = await list_if_served(self.session.connection, resource, namespace)
        return [JobObject(resource, manifest) for manifest in listed]


async def list_pods(session: ApiSession, found: JobObject) -> list[dict[str, Any]]:
    """Returns the existing pods of a job, of any generation."""
    pods = await session.connection.list(PODS, found.namespace, selector=pod_selector(found))
    return [pod for pod in pods if belongs_to_job(pod, found)]


def pod_selector(found: JobObject) -> str:
    """Returns the label selector of a job's pods."""
    label = labels.JOB_NAME if found.resource == _OWN else JOB_NAME
    return f"{label}={found.name}"


def belongs_to_job(pod: dict[str, Any], found: JobObject) -> bool:
    """Whether a selected pod is of this job and not of an earlier job of the same name.

    Pods of a launcher are owned by a batch Job.
    """
    owners = pod["metadata"].get("ownerReferences") or []
    return any(each["uid"] == found.manifest["metadata"]["uid"] or each["kind"] == "Job" for each in owners)


def listing_order(state: JobState) -> tuple[int, int, str]:
    """Returns the sort key of a listing: jobs that hold nodes, waiting jobs, others; the latest end last."""
    status = state.status
    if status.phase in HOLDING:
        return 0, status.admitted_at or 0, state.id
    if status.phase is Phase.QUEUED:
        return 1, status.queued_at or 0, state.id
    return 2, -(status.finished_at or 0), state.id


def _without_duplicates(found: Iterable[JobObject]) -> list[JobObject]:
    """Removes duplicates: one kind may be served in two versions."""
    return list({each.id: each for each in found}.values())


def _index(found: JobObject) -> tuple[int, str]:
    text = str((found.manifest["metadata"].get("labels") or {}).get(labels.ARRAY_INDEX, ""))
    return (int(text) if text.isdecimal() else 0, found.name)


_MAX_SHOWN = 3
_LISTING_HINT = "windlass queue lists jobs, windlass history those that ended; -n NAMESPACE looks in another namespace"


def unknown_job_error(text: str, wanted: JobName, known: Sequence[JobObject]) -> ApiError:
    """Returns the error for an unknown name, with the nearest name or the namespace of a job of that name.

    `text`: the typed name; `wanted`: its likeliest meaning; `known`: jobs that the user may list.
    """
    no = f"no job {text[:80]!r} in namespace {wanted.namespace}"
    if elsewhere := [each for each in known if wanted.name in _names(each)]:
        ids = ", ".join(sorted({_id(each, wanted.name) for each in elsewhere})[:_MAX_SHOWN])
        namespaces = sorted({each.namespace for each in elsewhere})
        return ApiError(ErrorCode.NO_SUCH_JOB, f"{no}; there is {ids}", f"use that name, or -n {namespaces[0]}")
    here = {name: _id(each, name) for each in known if each.namespace == wanted.namespace for name in _names(each)}
    near = nearest(wanted.name, here)
    hint = f"; did you mean {here[near]}?" if near else ""
    return ApiError(ErrorCode.NO_SUCH_JOB, f"{no}{hint}", _LISTING_HINT)


def _names(job: JobObject) -> tuple[str, ...]:
    """Returns all names of a job, without its namespace."""
    return tuple(filter(None, (job.job_name, job.array, job.name)))


def _id(job: JobObject, name: str) -> str:
    """Returns the job's id, or that of its array unless a member of the array was named."""
    return f"{job.namespace}/{job.array}" if job.array and name != job.name else job.id
