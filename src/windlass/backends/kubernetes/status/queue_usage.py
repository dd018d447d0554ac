"""Past usage of queues, stored in their objects, so that fair shares survive a change of leader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.coalescing_writer import CoalescingWriter
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.cluster.cluster_state import QUEUES, Manifests
from windlass.core.model.queue import PastUsage
from windlass.core.model.resources import MAX_AMOUNT
from windlass.jobs.kubernetes.bounded_integers import MAX_TIME_MS, require_integer

FIELD = "pastUse"
"""Field below `status`; its value is one text."""
_INTERVAL_S = 30.0
"""Seconds between two writes of a queue: half-lives are hours and days."""
_MAX_PAST_AMOUNT = MAX_AMOUNT * 1_000_000 << 40
"""Maximum of one amount, in 2^-40 of its unit: the largest amount on a million nodes."""
_decode = msgspec.json.Decoder(PastUsage).decode


def read_past_usage(queues: Manifests) -> dict[str, PastUsage]:
    """Past usage by queue, as it was written last; unreadable usage is dropped."""
    found = {}
    for name, manifest in queues.items():
        written = (manifest.get("status") or {}).get(FIELD)
        if isinstance(written, str) and (usage := _read(written)) is not None:
            found[name] = usage
    return found


def _read(written: str) -> PastUsage | None:
    """Reads past usage; None if it cannot be read, or holds numbers that no controller writes."""
    try:
        usage = _decode(written)
        require_integer(usage.at, 0, MAX_TIME_MS)
        for amount in usage.amounts.values():
            require_integer(amount, 0, _MAX_PAST_AMOUNT)
    except ValueError:  # a DecodeError is one
        return None
    return usage


class QueueUsageWriter:
    """Background writer of past usage, at long intervals."""

    def __init__(self, connection: Connection, queues: Manifests, on_trouble: Callable[[str], None]) -> None:
        self._connection, self._queues = connection, queues
        self._past: Mapping[str, PastUsage] = {}
        self._writer: CoalescingWriter[str] = CoalescingWriter(self._write, on_trouble, delay=0.0, every=_INTERVAL_S)

    def note(self, past: Mapping[str, PastUsage]) -> None:
        """Notes the past usage of all queues with a half-life; an empty mapping changes nothing."""
        if not past:
            return
        changed = [name for name, use in past.items() if use.amounts != self._amounts(name) and name in self._queues]
        self._past = past
        for name in changed:
            self._writer.mark(name)

    async def close(self) -> None:
        """Stops; pending writes are dropped."""
        await self._writer.close()

    def _amounts(self, name: str) -> Mapping[str, int] | None:
        known = self._past.get(name)
        return known.amounts if known else None

    async def _write(self, name: str) -> None:
        status: dict[str, Any] = {FIELD: msgspec.json.encode(self._past[name]).decode()}
        try:
            await self._connection.patch(QUEUES, None, name, {"status": status}, subresource="status")
        except ApiError as error:
            if not error.is_missing:
                raise
