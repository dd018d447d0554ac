"""Who of several replicas is the leader: whoever renews the Lease.

Nobody compares clocks. A follower waits until the Lease has not changed for its whole duration by its own monotonic
clock; the leader stops writing before the same time is over, counted from when it sent its last renewal that succeeded.
Source: client-go's leaderelection, but for the leader's own deadline, which it leaves to its caller.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.resources import LEASES
from windlass.backends.port import BackendError

ADDRESS = "windlass.dev/address"
"""An annotation of the Lease: where the leader answers, if it is not a pod."""
_MARGIN = 0.2
"""Of the duration: so long before it is over the leader stops, for requests that are under way."""


class LostError(BackendError):
    """The Lease could not be renewed in time, or somebody else has it."""


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """What is run for, and by whom. `duration` in seconds."""

    namespace: str
    name: str
    identity: str
    duration: float = 15.0
    address: str = ""


@dataclass(frozen=True, slots=True)
class _Sight:
    """A state of the Lease, and since when it has not changed, in seconds by our clock."""

    version: str
    since: float


class Election:
    """One candidate. `connection` must not ask `may_lead` before it writes."""

    def __init__(
        self,
        connection: Connection,
        terms: LeaseSettings,
        on_trouble: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection, self.terms, self._on_trouble, self._clock = connection, terms, on_trouble, clock
        self._until = 0.0
        self._sight = _Sight("", 0.0)
        self._mine: Mapping[str, Any] | None = None
        """The Lease as we wrote it last: to renew it nobody need be asked."""
        self.holder = ""
        """Who leads, as far as is known."""

    def may_lead(self) -> bool:
        """Whether this process is the leader, and surely so for a while."""
        return self._clock() < self._until

    async def win(self) -> None:
        """Return once the Lease is ours."""
        told = ""
        while not await self._attempt():
            if self.holder != told:
                told = self.holder
                self._on_trouble(f"following {told}" if told else "nobody leads yet")
            await asyncio.sleep(min(self.terms.duration / 30, self._left()))

    async def keep(self) -> None:
        """Renew until that fails for too long. Raises LostError."""
        while True:
            await asyncio.sleep(self.terms.duration / 5)
            renewed = await self._attempt()
            if not renewed and (not self.may_lead() or self.holder not in ("", self.terms.identity)):
                self._until = 0.0
                raise LostError("the lease could not be renewed: another replica may lead now")

    async def resign(self) -> None:
        """Give the Lease back, so that nobody has to wait for its end."""
        if not self.may_lead():
            return
        self._until = 0.0
        try:
            lease = await self._connection.get(LEASES, self.terms.namespace, self.terms.name, within=2)
            if lease["spec"].get("holderIdentity") == self.terms.identity:
                spec = {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
                await self._connection.replace(LEASES, {**lease, "spec": spec}, within=2)
        except BackendError:
            return  # then the others wait for its end

    async def _attempt(self) -> bool:
        """Take the Lease, or renew it. Returns whether it is ours."""
        began = self._clock()
        try:
            lease = self._mine or await self._look()
            if lease is not None and not self._is_free(lease):
                return False
            written = await self._write(lease)
        except BackendError as error:
            self._mine = None  # it may be another one by now
            if not (isinstance(error, ApiError) and error.status == 409):
                self._on_trouble(f"lease {self.terms.namespace}/{self.terms.name}: {error}")
            return False
        self._mine = written
        self._until = began + self.terms.duration * (1 - _MARGIN)
        self.holder = self.terms.identity
        self._sight = _Sight(written["metadata"]["resourceVersion"], began)
        return True

    async def _look(self) -> Mapping[str, Any] | None:
        try:
            lease = await self._connection.get(
                LEASES, self.terms.namespace, self.terms.name, within=self.terms.duration / 5
            )
        except ApiError as error:
            if not error.is_missing:
                raise
            return None
        version = lease["metadata"]["resourceVersion"]
        if version != self._sight.version:
            self._sight = _Sight(version, self._clock())
        self.holder = (lease.get("spec") or {}).get("holderIdentity") or ""
        return lease

    def _is_free(self, lease: Mapping[str, Any]) -> bool:
        if self.holder in ("", self.terms.identity):
            return True
        duration = (lease.get("spec") or {}).get("leaseDurationSeconds") or self.terms.duration
        return self._clock() - self._sight.since >= duration

    def _left(self) -> float:
        """Seconds until the Lease is over, if it is not renewed; a tenth of a second for a moment after that."""
        left = self._sight.since + self.terms.duration - self._clock()
        return max(0.1, left) if self._sight.version and left > -1 else self.terms.duration

    async def _write(self, lease: Mapping[str, Any] | None) -> Mapping[str, Any]:
        terms = self.terms
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        before = (lease or {}).get("spec") or {}
        mine = before.get("holderIdentity") == terms.identity
        spec = {
            "holderIdentity": terms.identity,
            "leaseDurationSeconds": max(1, round(terms.duration)),
            "renewTime": now,
            "acquireTime": before["acquireTime"] if mine and "acquireTime" in before else now,
            "leaseTransitions": (before.get("leaseTransitions") or 0) + (not mine and lease is not None),
        }
        within = terms.duration / 3
        if lease is None:
            about: dict[str, Any] = {
                "name": terms.name,
                "namespace": terms.namespace,
                "annotations": {ADDRESS: terms.address},
            }
            body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": about, "spec": spec}
            return await self._connection.create(LEASES, body, within=within)
        about = lease["metadata"]
        about = {**about, "annotations": {**(about.get("annotations") or {}), ADDRESS: terms.address}}
        return await self._connection.replace(LEASES, {**lease, "metadata": about, "spec": spec}, within=within)
