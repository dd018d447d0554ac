"""Waits for the end of jobs: by the event stream of the controller, or by the records while no controller runs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from windlass.core.model.status import TERMINAL
from windlass.server.client import ApiEventStream
from windlass.server.discovery import LOST, find_controller
from windlass.server.errors import ApiError

_RECORD_INTERVAL_S = 1.0


class JobEndWatch:
    """Watches a set of jobs. Reconnects when the controller changes."""

    def __init__(self, state: Path, ids: Sequence[str]) -> None:
        self._state = state
        self._ids = list(ids)
        self._stream: ApiEventStream | None = None
        self._last_read = 0.0

    def poll(self, timeout: float) -> bool:
        """Waits at most `timeout` seconds; returns whether all jobs have ended, and returns at once when they do."""
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
        """Closes the event stream."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _connect(self) -> bool:
        """Opens an event stream; without a controller, reads the records at most once a second.

        Returns True if a stream is open or the records show that all jobs have ended.
        """
        now = time.monotonic()
        if now < self._last_read + _RECORD_INTERVAL_S:
            return False
        self._last_read = now
        client = find_controller(self._state)
        if client is None:
            return self._ended_on_record()
        client.close()
        try:
            self._stream = client.follow(",".join(self._ids), after=_LATEST)
        except ApiError as error:
            if error.code not in LOST:
                raise
            return False
        return True

    def _ended_on_record(self) -> bool:
        from windlass.server.records_client import RecordsClient  # noqa: PLC0415

        records = RecordsClient.open(self._state)
        if records is None:
            return True
        try:
            return all(_phase(records.job(job_id)) in TERMINAL for job_id in self._ids)
        finally:
            records.close()


_LATEST = 2**62
"""A number after every event, so that the stream returns only new events and the end."""


def _phase(details: dict[str, Any]) -> str:
    return str(details["phase"])
