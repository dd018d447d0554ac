"""Limits the messages and bytes that one agent may send: parsing them takes time of the operator's event loop.

That loop also renews the Lease. A limit is a token bucket: a burst passes at once, and is refilled at a constant rate.
"""

from __future__ import annotations

from dataclasses import dataclass, field

_MESSAGES_PER_S, _MESSAGE_BURST = 20, 100
"""An agent sends a heartbeat every two seconds, and a few messages at each start and end of its ranks."""
_BYTES_PER_S, _BYTE_BURST = 1 << 18, 1 << 19


class RateLimitError(ValueError):
    """The error of an agent that sends more than it may."""


@dataclass(slots=True)
class TokenBucket:
    """A token bucket. `rate`: tokens per second. `burst`: maximum number of tokens held. `now` in seconds."""

    rate: float
    burst: float
    now: float
    _spent: float = field(default=0.0, init=False)
    """Tokens of the burst that are not refilled yet."""

    def take(self, tokens: float, now: float) -> bool:
        """Takes tokens if there are so many; returns whether there were."""
        self._spent, self.now = max(0.0, self._spent - (now - self.now) * self.rate), now
        if self._spent + tokens > self.burst:
            return False
        self._spent += tokens
        return True


class MessageLimit:
    """The limit of one connection. `now`: seconds of a monotonic clock."""

    def __init__(self, now: float) -> None:
        self._messages = TokenBucket(_MESSAGES_PER_S, _MESSAGE_BURST, now)
        self._bytes = TokenBucket(_BYTES_PER_S, _BYTE_BURST, now)

    def count(self, size: int, now: float) -> None:
        """Counts a message of `size` bytes. Raises RateLimitError."""
        if not (self._messages.take(1, now) and self._bytes.take(size, now)):
            raise RateLimitError(f"it sends more than {_MESSAGES_PER_S} messages or {_BYTES_PER_S >> 10} KiB a second")
