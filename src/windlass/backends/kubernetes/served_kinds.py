"""Finds out which of the watched kinds a cluster serves, by the discovery endpoints of its API server.

A definition that is removed takes all objects of its kind with it. A watch that is open sees their deletion; to any
other watch the server answers that it does not know the resource (404), which one of several API servers also does for
a moment after a definition was created or changed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import orjson

from windlass.backends.errors import BackendError
from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.resources import Resource, named
from windlass.backends.kubernetes.cluster.cluster_state import POLICIES, QUEUES, RESERVATIONS
from windlass.backends.kubernetes.external import dialects
from windlass.backends.kubernetes.kueue import kueue_jobs
from windlass.backends.kubernetes.schedules.schedule_turn import SCHEDULES
from windlass.jobs.kubernetes.kinds.registry import KINDS, TRAINER
from windlass.jobs.kubernetes.train_runtimes import CLUSTER_RUNTIME, RUNTIME

REMOVED_AFTER_S = 15.0
"""Seconds for which a kind must be unknown to the API server before its objects count as deleted."""
JOB_KINDS = tuple(named(kind.api_version, kind.plural, kind.name) for kind in KINDS)
RUNTIMES = (
    named(TRAINER, "clustertrainingruntimes", CLUSTER_RUNTIME, namespaced=False),
    named(TRAINER, "trainingruntimes", RUNTIME),
)
"""Runtimes of TrainJobs."""
WATCHED = (*JOB_KINDS, *RUNTIMES, QUEUES, POLICIES, RESERVATIONS, SCHEDULES, *dialects.OPTIONAL, *kueue_jobs.KINDS)
"""Watched kinds that a cluster may lack."""


async def served_kinds(connection: Connection) -> tuple[Resource, ...]:
    """Returns the watched kinds that are not built in and that the cluster serves. Raises ApiError, Unreachable."""
    versions = sorted({kind.api_version for kind in WATCHED})
    lists = await asyncio.gather(*(_plurals(connection, version) for version in versions))
    there = dict(zip(versions, lists, strict=True))
    # one version of a kind returns all its objects
    found = {kind.full_name: kind for kind in WATCHED if kind.plural in there[kind.api_version]}
    return tuple(found.values())


@dataclass(slots=True)
class KindRemoval:
    """Check whether a cluster no longer serves a kind, in any version, for `after_s` seconds.

    `changed` is called with False once the kind is removed, and with True once it is served again.
    """

    connection: Connection
    kind: Resource
    after_s: float = REMOVED_AFTER_S
    changed: Callable[[bool], None] | None = None
    _since: float | None = None
    _is_served: bool = True

    def note_served(self) -> None:
        """Notes that the API server has just served the kind."""
        self._since = None
        self._note(is_served=True)

    async def is_removed(self) -> bool:
        """Asks the API server; returns False while it does not answer."""
        try:
            is_served = await is_kind_served(self.connection, self.kind)
        except BackendError:
            is_served = True
        now = time.monotonic()
        self._since = None if is_served else now if self._since is None else self._since
        is_removed = self._since is not None and now - self._since >= self.after_s
        if is_removed:
            self._note(is_served=False)
        return is_removed

    def _note(self, *, is_served: bool) -> None:
        if is_served is not self._is_served and self.changed is not None:
            self.changed(is_served)
        self._is_served = is_served


async def is_kind_served(connection: Connection, kind: Resource) -> bool:
    """Tells whether any version of a kind is served. Raises ApiError, Unreachable."""
    try:
        group = orjson.loads(await connection.request("GET", f"/apis/{kind.group}"))
    except ApiError as error:
        if not error.is_missing:
            raise
        return False
    versions = [str(each["groupVersion"]) for each in group.get("versions") or ()]
    return any([kind.plural in await _plurals(connection, version) for version in versions])


async def _plurals(connection: Connection, version: str) -> frozenset[str]:
    """Returns the resources of one group and version."""
    try:
        found = orjson.loads(await connection.request("GET", f"/apis/{version}"))
    except ApiError as error:
        if not error.is_missing:
            raise
        return frozenset()
    return frozenset(each["name"] for each in found.get("resources") or ())
