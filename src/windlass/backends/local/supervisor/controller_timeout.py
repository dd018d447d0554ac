"""The time that a supervisor waits for a controller, extended while a client lives that may become the controller."""

from __future__ import annotations

_MOST = 60.0
"""Seconds for such a client: one that lives and is none by then, as it was stopped with Ctrl-Z, may never be."""


class ControllerTimeout:
    """All times in monotonic seconds. `linger`: the agreed time; infinite: until a controller comes."""

    def __init__(self, linger: float, now: float) -> None:
        self._linger = linger
        self.begin(now)

    def begin(self, now: float) -> None:
        """The controller has left."""
        self._since = now
        self.look_at = now + self._linger
        """When to see whether it is over."""

    def lengthen(self, linger: float) -> None:
        """A `run` that takes over from an `up` must not end what that one keeps."""
        self._linger = max(self._linger, linger)
        self.look_at = max(self.look_at, self._since + self._linger)

    def over(self, now: float, *, awaited: bool) -> bool:
        """Whether nobody will come any more; on a busy machine a client takes long to become the controller."""
        ends = self._since + max(self._linger, _MOST)
        self.look_at = min(now + self._linger, ends)
        return not awaited or now >= ends
