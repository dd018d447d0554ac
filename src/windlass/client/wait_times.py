"""Pauses between two looks at a job, bounded by the timeout of the caller and by the time without any answer."""

from __future__ import annotations

import time

from windlass.client.errors import InvalidRequestError, TargetUnreachableError, WaitTimeoutError

_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _GROWTH = 0.02, 1.0, 1.5
_OUTAGE_LIMIT_S = 60.0
"""Time without an answer after which waiting ends with the error of the connection."""


class WaitTimes:
    """Times of one wait for a job. `timeout` in seconds; None: without a limit."""

    def __init__(self, job: str, timeout: float | None = None) -> None:
        if not isinstance(timeout, (int, float, type(None))):
            raise InvalidRequestError(f"the timeout {timeout!r} is no number", "write seconds: timeout=60")
        self._job, self._timeout = job, timeout
        self._end = None if timeout is None else time.monotonic() + timeout
        self._pause = _FIRST_PAUSE_S
        self._lost_at: float | None = None

    def next_pause(self) -> float:
        """Returns the seconds until the next look, longer each time. Raises WaitTimeoutError after the timeout."""
        pause, self._pause = self._pause, min(self._pause * _GROWTH, _LONGEST_PAUSE_S)
        if self._end is None:
            return pause
        left = self._end - time.monotonic()
        if left <= 0:
            raise WaitTimeoutError(
                f"{self._job} has not ended within {self._timeout:g} s", "wait longer, or see why() and logs()"
            )
        return min(pause, left)

    def restart(self) -> None:
        """Makes the next pause a short one, because something has happened."""
        self._pause = _FIRST_PAUSE_S

    def reached(self) -> None:
        """Notes an answer."""
        self._lost_at = None

    def missed(self, error: TargetUnreachableError) -> None:
        """Notes a missing answer. Raises the error if there has been none for a minute."""
        now = time.monotonic()
        self._lost_at = now if self._lost_at is None else self._lost_at
        if now - self._lost_at > _OUTAGE_LIMIT_S:
            raise error
