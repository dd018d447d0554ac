"""Finding the objects that names mean, and what belongs to them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from windlass.cli.cluster.naming import OWN, RESOURCES, Meant, meant, resources_of
from windlass.cli.cluster.reach import Reach
from windlass.cli.cluster.states import Found
from windlass.cli.cluster.unknown import nobody
from windlass.core.status import HOLDING, JobState, Phase
from windlass.jobs.kubernetes import own_labels
from windlass.jobs.kubernetes.pods import JOB_NAME
from windlass.server.errors import ApiError, Code
from windlass.worlds.kubernetes.client.refusals import ApiError as Refusal
from windlass.worlds.kubernetes.client.resources import PODS, Resource
from windlass.worlds.kubernetes.homes import job_id

_OWN = resources_of(OWN)[0]


class Finder:
    """Looks in one namespace, unless a name says another."""

    def __init__(self, reach: Reach, namespace: str) -> None:
        self._reach = reach
        self.namespace = namespace

    def find(self, text: str) -> list[Found]:
        """The job that a name or an id means, an array's members by index; [] if there is none. Raises ApiError."""
        for each in meant(text, self.namespace):
            if found := self._reach.do(self._find(each)):
                return found
        return []

    def the(self, text: str) -> list[Found]:
        """As `find`. Raises ApiError NO_SUCH_JOB."""
        found = self.find(text)
        if not found:
            raise self.unknown(text)
        return found

    def unknown(self, text: str) -> ApiError:
        """What to say of a name that means nothing."""
        likely = meant(text, self.namespace)
        if not likely:
            return ApiError(
                Code.NO_SUCH_JOB, f"{text[:80]!r} cannot be the name of a job", "NAME, NAMESPACE/NAME or so"
            )
        try:
            known = self.all(None)
        except ApiError:  # whoever may see none is told of none
            known = []
        return nobody(text, likely[0], known)

    def id_of(self, text: str) -> str:
        """What the operator would call a job whose object is gone. Raises ApiError NO_SUCH_JOB."""
        likely = meant(text, self.namespace)
        if not likely:
            raise self.unknown(text)
        return job_id(likely[0].kind or _OWN.kind, likely[0].namespace, likely[0].name)

    def all(self, namespace: str | None) -> list[Found]:
        """Every job of a namespace, or of all of them (of the user's own, if more may not be seen)."""
        try:
            return self._reach.do(self._all(namespace))
        except ApiError as error:
            if error.code is not Code.NOT_ALLOWED or namespace is not None:
                raise
        return self._reach.do(self._all(self.namespace))

    def pods(self, found: Found) -> list[dict[str, Any]]:
        """The pods that there are of a job, of any generation."""
        return self._reach.do(pods_of(self._reach, found))

    async def _find(self, wanted: Meant) -> list[Found]:
        candidates = resources_of(wanted.kind)
        there = await asyncio.gather(*(self._get(kind, wanted) for kind in candidates))
        if found := next(filter(None, there), None):
            return [found]
        return await self._by_job_name(wanted) if _OWN in candidates else []

    async def _get(self, resource: Resource, wanted: Meant) -> Found | None:
        try:
            manifest = await self._reach.connection.get(resource, wanted.namespace, wanted.name)
        except Refusal as error:
            if error.is_missing or (error.is_forbidden and resource != _OWN) or error.is_invalid:
                return None
            raise
        return Found(resource, manifest)

    async def _by_job_name(self, wanted: Meant) -> list[Found]:
        """Objects are named anew for each job: of a job's own name the latest is meant; of an array's, its members."""
        here = await self._list(_OWN, wanted.namespace)
        if members := [each for each in here if each.array == wanted.name]:
            return sorted(members, key=_index)
        return sorted((each for each in here if each.called == wanted.name), key=lambda each: each.made)[-1:]

    async def _all(self, namespace: str | None) -> list[Found]:
        listed = await asyncio.gather(*(self._list(kind, namespace) for kind in RESOURCES))
        return _each_once(found for some in listed for found in some)

    async def _list(self, resource: Resource, namespace: str | None) -> list[Found]:
        """Those of one kind; none where the cluster does not have the kind."""
        try:
            listed = await self._reach.connection.list(resource, namespace)
        except Refusal as error:
            if error.is_missing:
                return []
            raise
        return [Found(resource, manifest) for manifest in listed]


async def pods_of(reach: Reach, found: Found) -> list[dict[str, Any]]:
    """See `Finder.pods`."""
    pods = await reach.connection.list(PODS, found.namespace, selector=selector_of(found))
    return [pod for pod in pods if belongs(pod, found)]


def selector_of(found: Found) -> str:
    """The label of its pods."""
    label = own_labels.JOB_NAME if found.resource == _OWN else JOB_NAME
    return f"{label}={found.name}"


def belongs(pod: dict[str, Any], found: Found) -> bool:
    """Whether a pod of that label is this job's, and none of a namesake before it. A launcher's Job owns its pods."""
    owners = pod["metadata"].get("ownerReferences") or []
    return any(each["uid"] == found.manifest["metadata"]["uid"] or each["kind"] == "Job" for each in owners)


def order(state: JobState) -> tuple[int, int, str]:
    """Of a listing: those that hold nodes, those that wait, others; the latest end last."""
    status = state.status
    if status.phase in HOLDING:
        return 0, status.admitted_at or 0, state.id
    if status.phase is Phase.QUEUED:
        return 1, status.queued_at or 0, state.id
    return 2, -(status.finished_at or 0), state.id


def _each_once(found: Iterable[Found]) -> list[Found]:
    """One kind may be served in two versions."""
    return list({each.id: each for each in found}.values())


def _index(found: Found) -> tuple[int, str]:
    text = str((found.manifest["metadata"].get("labels") or {}).get(own_labels.ARRAY_INDEX, ""))
    return (int(text) if text.isdecimal() else 0, found.name)
