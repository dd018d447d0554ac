"""The time that a supervisor waits for a controller, extended while a client lives that may become the controller."""

from __future__ import annotations

_CLIENT_TIMEOUT_S = 60.0
"""Seconds for such a client: one that lives and has not become the controller by then may be stopped (Ctrl-Z)."""


class ControllerTimeout:
    """Time limit for a supervisor without a controller, in monotonic seconds.

    `linger`: the agreed time; infinite: until a controller connects.
    """

    def __init__(self, linger: float, now: float) -> None:
        self._linger = linger
        self.begin(now)

    def begin(self, now: float) -> None:
        """Starts the timeout: the controller has disconnected."""
        self._since = now
        self.check_at = now + self._linger
        """Time of the next check."""

    def extend(self, linger: float) -> None:
        """Extends the time: a `run` that takes over from an `up` must not end that one's jobs."""
        self._linger = max(self._linger, linger)
        self.check_at = max(self.check_at, self._since + self._linger)

    def has_expired(self, now: float, *, has_client: bool) -> bool:
        """Tells whether to stop waiting. `has_client`: a client lives, which may take long to become the controller."""
        ends = self._since + max(self._linger, _CLIENT_TIMEOUT_S)
        self.check_at = min(now + self._linger, ends)
        return not has_client or now >= ends
