"""Leader election among replicas: the replica that renews the Lease is the leader.

Clocks of different machines are never compared. A follower waits until the Lease has not changed for its whole duration
by its own monotonic clock. The leader stops writing before the same time has passed since it sent its last successful
renewal. Source: client-go's leaderelection, which stops renewals after a deadline but leaves it to its caller to stop
writing; here `may_lead` tells.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.connection import Connection, find_object
from windlass.backends.kubernetes.client.resources import LEASES
from windlass.backends.port import BackendError
from windlass.jobs.kubernetes.bounded_integers import parse_integer
from windlass.jobs.kubernetes.labels import LEADER_ADDRESS

_MAX_DURATION_S = 3600
"""Maximum duration of a Lease in seconds: a longer one in the Lease was not written by a replica."""
_MARGIN = 0.2
"""Fraction of the duration by which the leader stops early, to leave time for requests in flight."""


def _always() -> bool:
    return True


class LostError(BackendError):
    """The Lease could not be renewed in time, or another replica holds it."""


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """Name of the Lease, identity of the candidate, and duration in seconds."""

    namespace: str
    name: str
    identity: str
    duration: float = 15.0
    address: str = ""


@dataclass(frozen=True, slots=True)
class _Observation:
    """A version of the Lease, and the time (s, local clock) since which this replica knows it."""

    version: str
    since: float


class Election:
    """One candidate for leadership. `connection` must not depend on `may_lead` to write."""

    def __init__(
        self,
        connection: Connection,
        settings: LeaseSettings,
        on_trouble: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection, self.settings, self._on_trouble, self.clock = connection, settings, on_trouble, clock
        self._until = 0.0
        self._observed = _Observation("", 0.0)
        self._written: Mapping[str, Any] | None = None
        """The Lease as this replica last wrote it, so that a renewal needs no read."""
        self.holder = ""
        """Identity of the leader as last read; empty if unknown."""

    def may_lead(self) -> bool:
        """Whether this process holds the Lease with the safety margin to spare."""
        return self.clock() < self._until

    async def win(self) -> None:
        """Waits until this replica holds the Lease."""
        reported = ""
        while not await self._attempt():
            if self.holder != reported:
                reported = self.holder
                self._on_trouble(f"following {reported}" if reported else "there is no leader yet")
            await asyncio.sleep(min(self.settings.duration / 30, self._remaining()))

    @contextlib.contextmanager
    def through(self, connection: Connection) -> Iterator[None]:
        """Uses another connection, that of another event loop: only one loop may renew at a time."""
        own, self._connection = self._connection, connection
        try:
            yield
        finally:
            self._connection = own

    async def keep(self, is_alive: Callable[[], bool] = _always) -> None:
        """Renews the Lease until its time is over or another replica holds it; then raises LostError.

        `is_alive`: whether the process still works; if not, the Lease is given up too.
        """
        while True:
            await asyncio.sleep(self.settings.duration / 5)
            if not is_alive():
                self._until = 0.0
                raise LostError("the event loop has not turned for too long: another replica is to lead")
            renewed = await self._attempt()
            if not renewed and (not self.may_lead() or self.holder not in ("", self.settings.identity)):
                self._until = 0.0
                raise LostError("the lease could not be renewed: another replica may lead now")

    async def resign(self) -> None:
        """Releases the Lease, so that the next leader need not wait until it expires."""
        if not self.may_lead():
            return
        self._until = 0.0
        try:
            lease = await self._connection.get(LEASES, self.settings.namespace, self.settings.name, within=2)
            if lease["spec"].get("holderIdentity") == self.settings.identity:
                spec = {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
                await self._connection.replace(LEASES, {**lease, "spec": spec}, within=2)
        except BackendError:
            return  # the others wait until the Lease expires

    async def _attempt(self) -> bool:
        """Takes or renews the Lease. Returns whether this replica holds it."""
        began = self.clock()
        try:
            lease = self._written or await self._read()
            if lease is not None and not self._is_free(lease):
                return False
            written = await self._write(lease)
        except BackendError as error:
            self._written = None  # another replica may have changed it
            if not (isinstance(error, ApiError) and error.status == 409):
                self._on_trouble(f"lease {self.settings.namespace}/{self.settings.name}: {error}")
            return False
        self._written = written
        self._until = began + self.settings.duration * (1 - _MARGIN)
        self.holder = self.settings.identity
        self._observed = _Observation(written["metadata"]["resourceVersion"], began)
        return True

    async def _read(self) -> Mapping[str, Any] | None:
        within = self.settings.duration / 5
        lease = await find_object(self._connection, LEASES, self.settings.namespace, self.settings.name, within=within)
        if lease is None:
            return None
        version = lease["metadata"]["resourceVersion"]
        if version != self._observed.version:
            self._observed = _Observation(version, self.clock())
        self.holder = (lease.get("spec") or {}).get("holderIdentity") or ""
        return lease

    def _is_free(self, lease: Mapping[str, Any]) -> bool:
        if self.holder in ("", self.settings.identity):
            return True
        written = parse_integer((lease.get("spec") or {}).get("leaseDurationSeconds"), 1, _MAX_DURATION_S)
        duration = self.settings.duration if written is None else written
        return self.clock() - self._observed.since >= duration

    def _remaining(self) -> float:
        """Seconds until the observed Lease expires, 0.1 at least; its duration if that is over 1 s ago or unknown."""
        left = self._observed.since + self.settings.duration - self.clock()
        return max(0.1, left) if self._observed.version and left > -1 else self.settings.duration

    async def _write(self, lease: Mapping[str, Any] | None) -> Mapping[str, Any]:
        settings = self.settings
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        before = (lease or {}).get("spec") or {}
        is_ours = before.get("holderIdentity") == settings.identity
        spec = {
            "holderIdentity": settings.identity,
            "leaseDurationSeconds": max(1, round(settings.duration)),
            "renewTime": now,
            "acquireTime": before["acquireTime"] if is_ours and "acquireTime" in before else now,
            "leaseTransitions": (before.get("leaseTransitions") or 0) + (not is_ours and lease is not None),
        }
        within = settings.duration / 3
        if lease is None:
            metadata: dict[str, Any] = {
                "name": settings.name,
                "namespace": settings.namespace,
                "annotations": {LEADER_ADDRESS: settings.address},
            }
            body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
            return await self._connection.create(LEASES, body, within=within)
        metadata = lease["metadata"]
        annotations = {**(metadata.get("annotations") or {}), LEADER_ADDRESS: settings.address}
        metadata = {**metadata, "annotations": annotations}
        return await self._connection.replace(LEASES, {**lease, "metadata": metadata, "spec": spec}, within=within)
