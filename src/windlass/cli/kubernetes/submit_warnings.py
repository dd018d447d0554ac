"""What can be told of a job when it is handed in: what it names and the cluster lacks, and that it can never run."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from windlass.backends.errors import BackendError
from windlass.backends.kubernetes.client.api_errors import ApiError as Refusal
from windlass.backends.kubernetes.client.resources import (
    CLAIMS,
    CONFIG_MAPS,
    PRIORITY_CLASSES,
    SECRETS,
    SERVICE_ACCOUNTS,
    Resource,
)
from windlass.core.model.status import JobState, Phase
from windlass.jobs.kubernetes.kinds.registry import read
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.server.errors import ApiError, Code

if TYPE_CHECKING:
    from windlass.cli.kubernetes.api_session import ApiSession
    from windlass.cli.kubernetes.client import ClusterClient
    from windlass.cli.kubernetes.job_objects import JobObject

Manifest = Mapping[str, Any]
_PATIENCE = 2.0
"""Seconds in which the operator has looked at a new job, if it is not busy."""
_LOOK = 0.05
_ASKED_OF = 20
"""Jobs of one hand-in that are looked at."""


class NamedObject(NamedTuple):
    """An object that a job names. `fate`: what becomes of a job whose object is missing."""

    resource: Resource
    namespace: str
    name: str
    fate: str


class Prospects(NamedTuple):
    """What is said of new jobs, a line each."""

    refused: list[str]
    """They have ended: no change of the cluster would help."""
    doubtful: list[str]
    """They wait for a larger cluster."""


def missing_object_warnings(cluster: ClusterClient, manifests: Sequence[Manifest]) -> list[str]:
    """A line for each object that jobs name and that is not there; what the user may not see is passed over."""
    made = {(each["kind"], each["metadata"]["name"]) for each in manifests}
    parsed = [found for each in manifests[:_ASKED_OF] if isinstance(found := read(each), ParsedJob)]
    wanted = dict.fromkeys(named for each in parsed for named in named_objects(each))
    asked = [named for named in wanted if (named.resource.kind, named.name) not in made]
    missing = cluster.reach.do(_missing(cluster.reach, asked))
    return [f"there is no {each.resource.kind} {each.name}: {each.fate}" for each in missing]


def named_objects(parsed: ParsedJob) -> Iterator[NamedObject]:
    """The objects that a job of any kind names: its priority class, and what its pods need to start.

    Not its queue: of that `outlook` tells, with the nearest name.
    """
    here, waits = parsed.namespace, "its pods wait for it"
    if parsed.priority_class:
        yield NamedObject(PRIORITY_CLASSES, "", parsed.priority_class, "its pods are refused until it is made")
    for each in parsed.replicas:
        spec = each.template.get("spec") or {}
        for secret in _names(spec.get("imagePullSecrets"), "name"):
            yield NamedObject(SECRETS, here, secret, "its images are pulled without it")
        if account := spec.get("serviceAccountName"):
            yield NamedObject(SERVICE_ACCOUNTS, here, account, "its pods are refused until it is made")
        for volume in spec.get("volumes") or []:
            yield from (
                NamedObject(resource, here, name, waits)
                for field, key, resource in (
                    ("persistentVolumeClaim", "claimName", CLAIMS),
                    ("configMap", "name", CONFIG_MAPS),
                    ("secret", "secretName", SECRETS),
                )
                for name in _names([volume.get(field)], key)
            )


def check_prospects(cluster: ClusterClient, ids: Sequence[str]) -> Prospects:
    """Of new jobs those that can never run here. Waits a moment for the operator to look at them."""
    until = time.monotonic() + _PATIENCE
    pending = list(ids[:_ASKED_OF])
    refused: list[str] = []
    waiting: dict[str, JobObject] = {}
    with contextlib.suppress(ApiError):  # the jobs are made, whatever cannot be told of them
        while pending and time.monotonic() < until:
            for job_id in list(pending):
                found = cluster.finder.find(job_id)
                states = [each.state() for each in found]
                if any(state.status.phase is Phase.CREATED for state in states):
                    continue
                pending.remove(job_id)
                bad = next((state for state in states if state.status.reason == "Misconfigured"), None)
                if bad is not None and bad.status.phase is Phase.FAILED:
                    refused.append(f"{job_id} can never run here: {bad.status.message}")
                waiting |= {each.id: each for each, state in zip(found, states, strict=True) if _waits(state)}
            if pending:
                cluster.reach.rest(_LOOK)
    return Prospects(refused, _together(_doubts(cluster, list(waiting.values())[:_ASKED_OF], until)))


def _waits(state: JobState) -> bool:
    return state.status.phase is Phase.QUEUED


def _doubts(cluster: ClusterClient, waiting: Iterable[JobObject], until: float) -> Iterator[tuple[str, str]]:
    """Jobs that fit on no state of this cluster, each with why: by the operator's word, or else by the object's."""
    answers = True
    for each in waiting:
        told = each.never
        if answers and time.monotonic() < until:
            try:
                told = cluster.never(each.id)
            except ApiError as error:
                answers = error.code is Code.NO_SUCH_JOB
        if told:
            yield each.id, told


def _together(doubts: Iterable[tuple[str, str]]) -> list[str]:
    """A line for each reason: of jobs that are alike, as those of an array are, the first stands for all."""
    jobs: dict[str, list[str]] = {}
    for job_id, told in doubts:
        jobs.setdefault(told, []).append(job_id)
    return [f"{_first(ids)}: {told}" for told, ids in jobs.items()]


def _first(ids: Sequence[str]) -> str:
    return ids[0] if len(ids) == 1 else f"{ids[0]} (with {len(ids) - 1} more)"


async def _missing(reach: ApiSession, asked: Iterable[NamedObject]) -> list[NamedObject]:
    async def lacks(named: NamedObject) -> bool:
        try:
            await reach.connection.get(named.resource, named.namespace or None, named.name)
        except Refusal as error:
            return error.is_missing
        except BackendError:
            return False
        return False

    each = list(asked)
    there = await asyncio.gather(*(lacks(named) for named in each))
    return [named for named, is_missing in zip(each, there, strict=True) if is_missing]


def _names(items: Any, key: str) -> Iterator[str]:
    """The names under a key of a list's items that are not optional."""
    for item in items or []:
        if isinstance(item, Mapping) and item.get(key) and not item.get("optional"):
            yield str(item[key])
