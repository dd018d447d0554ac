"""Warnings about submitted jobs: objects that they name but the cluster lacks, and jobs that can never run."""

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
from windlass.jobs.kubernetes.manifests.cron_training_job_manifest import run_of_schedule
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.server.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from windlass.cli.kubernetes.api_session import ApiSession
    from windlass.cli.kubernetes.client import ClusterClient
    from windlass.cli.kubernetes.job_objects import JobObject

Manifest = Mapping[str, Any]
_TIMEOUT_S = 2.0
"""Time in which the operator handles a new job if it is not busy."""
_POLL_S = 0.05
_MAX_CHECKED = 20
"""Maximum number of jobs of one submission that are checked."""


class NamedObject(NamedTuple):
    """An object that a job names. `effect`: what happens to the job if it is missing."""

    resource: Resource
    namespace: str
    name: str
    effect: str


class Prospects(NamedTuple):
    """Warnings about new jobs that can never run, a line each."""

    refused: list[str]
    """Jobs that have ended, because no change of the cluster would help."""
    unplaceable: list[str]
    """Jobs that wait for a larger cluster."""


def missing_object_warnings(cluster: ClusterClient, manifests: Sequence[Manifest]) -> list[str]:
    """Returns a line for each missing object that jobs name; objects that the user may not read are skipped."""
    made = {(each["kind"], each["metadata"]["name"]) for each in manifests}
    jobs = map(run_of_schedule, manifests[:_MAX_CHECKED])
    parsed = [found for each in jobs if isinstance(found := read(each), ParsedJob)]
    wanted = dict.fromkeys(named for each in parsed for named in named_objects(each))
    named_once = [named for named in wanted if (named.resource.kind, named.name) not in made]
    missing = cluster.session.run(_missing(cluster.session, named_once))
    return [f"there is no {each.resource.kind} {each.name}: {each.effect}" for each in missing]


def named_objects(parsed: ParsedJob) -> Iterator[NamedObject]:
    """Yields the objects that a job of any kind names: its priority class, and those that its pods need to start.

    Its queue is not included: `check_prospects` reports an unknown queue with the nearest name.
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
    """Returns warnings about new jobs that can never run here. Waits up to two seconds for the operator."""
    until = time.monotonic() + _TIMEOUT_S
    pending = list(ids[:_MAX_CHECKED])
    refused: list[str] = []
    waiting: dict[str, JobObject] = {}
    with contextlib.suppress(ApiError):  # the jobs are created; warnings are optional
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
                cluster.session.wait(_POLL_S)
    return Prospects(refused, _group_names(_unplaceable(cluster, list(waiting.values())[:_MAX_CHECKED], until)))


def _waits(state: JobState) -> bool:
    return state.status.phase is Phase.QUEUED


def _unplaceable(cluster: ClusterClient, waiting: Iterable[JobObject], until: float) -> Iterator[tuple[str, str]]:
    """Yields jobs that fit no state of this cluster with the reason, by the operator or else by their object."""
    answers = True
    for each in waiting:
        reason = each.unplaceable_reason
        if answers and time.monotonic() < until:
            try:
                reason = cluster.unplaceable_reason(each.id)
            except ApiError as error:
                answers = error.code is ErrorCode.NO_SUCH_JOB
        if reason:
            yield each.id, reason


def _group_names(reasons: Iterable[tuple[str, str]]) -> list[str]:
    """Returns a line for each reason, with the first of its jobs and the number of the others."""
    jobs: dict[str, list[str]] = {}
    for job_id, reason in reasons:
        jobs.setdefault(reason, []).append(job_id)
    return [f"{_first(ids)}: {reason}" for reason, ids in jobs.items()]


def _first(ids: Sequence[str]) -> str:
    return ids[0] if len(ids) == 1 else f"{ids[0]} (with {len(ids) - 1} more)"


async def _missing(session: ApiSession, objects: Iterable[NamedObject]) -> list[NamedObject]:
    async def lacks(named: NamedObject) -> bool:
        try:
            await session.connection.get(named.resource, named.namespace or None, named.name)
        except Refusal as error:
            return error.is_missing
        except BackendError:
            return False
        return False

    candidates = list(objects)
    absent = await asyncio.gather(*(lacks(named) for named in candidates))
    return [named for named, is_missing in zip(candidates, absent, strict=True) if is_missing]


def _names(items: Any, key: str) -> Iterator[str]:
    """Yields the values of a key of the items that are not optional."""
    for item in items or []:
        if isinstance(item, Mapping) and item.get(key) and not item.get("optional"):
            yield str(item[key])
