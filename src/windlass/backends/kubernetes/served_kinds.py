"""Finds out which of the watched kinds a cluster serves, by the discovery endpoints of its API server."""

from __future__ import annotations

import asyncio

import orjson

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.resources import Resource, named
from windlass.backends.kubernetes.cluster.cluster_state import POLICIES, QUEUES, RESERVATIONS
from windlass.backends.kubernetes.external import dialects
from windlass.jobs.kubernetes.kinds.registry import KINDS, TRAINER
from windlass.jobs.kubernetes.train_runtimes import CLUSTER_RUNTIME, RUNTIME

JOB_KINDS = tuple(named(kind.api_version, kind.plural, kind.name) for kind in KINDS)
RUNTIMES = (
    named(TRAINER, "clustertrainingruntimes", CLUSTER_RUNTIME, namespaced=False),
    named(TRAINER, "trainingruntimes", RUNTIME),
)
"""Runtimes of TrainJobs."""
WATCHED = (*JOB_KINDS, *RUNTIMES, QUEUES, POLICIES, RESERVATIONS, *dialects.OPTIONAL)
"""Watched kinds that a cluster may lack."""


async def served_kinds(connection: Connection) -> tuple[Resource, ...]:
    """Returns the watched kinds that are not built in and that the cluster serves. Raises ApiError, Unreachable."""
    versions = sorted({kind.api_version for kind in WATCHED})
    lists = await asyncio.gather(*(_plurals(connection, version) for version in versions))
    there = dict(zip(versions, lists, strict=True))
    # one version of a kind returns all its objects
    found = {kind.full_name: kind for kind in WATCHED if kind.plural in there[kind.api_version]}
    return tuple(found.values())


async def _plurals(connection: Connection, version: str) -> frozenset[str]:
    """Returns the resources of one group and version."""
    try:
        found = orjson.loads(await connection.request("GET", f"/apis/{version}"))
    except ApiError as error:
        if not error.is_missing:
            raise
        return frozenset()
    return frozenset(each["name"] for each in found.get("resources") or ())
