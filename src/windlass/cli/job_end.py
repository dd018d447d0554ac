"""Whether jobs have ended, asked of whoever knows: a controller, or the records while there is none."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from windlass.server.client import Stream
from windlass.server.discovery import LOST, find_controller
from windlass.server.errors import ApiError

_TERMINAL = ("Succeeded", "Failed")
_BETWEEN_LOOKS = 1.0


class JobEndWatch:
    """`poll` waits a little, and says whether all have ended."""

    def __init__(self, state: Path, ids: Sequence[str]) -> None:
        self._state = state
        self._ids = list(ids)
        self._stream: Stream | None = None
        self._looked = 0.0

    def poll(self, timeout: float) -> bool:
        """Whether all have ended; returns at once when they do."""
        if self._stream is None and not self._connect():
            time.sleep(timeout)
            return False
        if self._stream is None:
            return True
        try:
            events = self._stream.poll(timeout)
        except ApiError as error:
            self.close()
            if error.code not in LOST:
                raise
            return False
        return any(event["type"] == "all ended" for event in events)

    def close(self) -> None:
        """Stop asking."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _connect(self) -> bool:
        """A stream to a controller; without one the records are looked at now and then. True if it is known."""
        now = time.monotonic()
        if now < self._looked + _BETWEEN_LOOKS:
            return False
        self._looked = now
        client = find_controller(self._state)
        if client is None:
            return self._on_record()
        client.close()
        try:
            self._stream = client.follow(",".join(self._ids), after=_LATEST)
        except ApiError as error:
            if error.code not in LOST:
                raise
            return False
        return True

    def _on_record(self) -> bool:
        from windlass.server.records_client import RecordsClient  # noqa: PLC0415

        records = RecordsClient.open(self._state)
        if records is None:
            return True
        try:
            return all(_phase(records.job(job_id)) in _TERMINAL for job_id in self._ids)
        finally:
            records.close()


_LATEST = 2**62
"""Past every event: only what comes from now on, and the end."""


def _phase(story: dict[str, Any]) -> str:
    return str(story["phase"])
