"""Retries operations of a store or a network with exponential backoff."""

from __future__ import annotations

import errno
import itertools
import random
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")

_TRANSIENT_CODES = (errno.EBUSY, errno.EREMOTEIO, errno.EIO, errno.EAGAIN, errno.ENETUNREACH, errno.EHOSTUNREACH)
_TRANSIENT_NAMES = frozenset(
    (
        "ClientOSError",
        "ClientPayloadError",
        "ConnectTimeoutError",
        "ConnectionClosedError",
        "EndpointConnectionError",
        "FSTimeoutError",
        "HTTPClientError",
        "IncompleteReadError",
        "ReadTimeoutError",
        "ResponseStreamingError",
        "ServerDisconnectedError",
        "ServerTimeoutError",
        "SizeMismatchError",
    )
)
"""Exceptions of botocore, aiohttp and fsspec, by name, so that none of these is imported; and `SizeMismatchError`."""

_LONGEST_POLL_S = 5.0

TRIES = 3
"""Number of tries, on top of those of a store's client: S3's spends about ten seconds on each."""


class SizeMismatchError(OSError):
    """An uploaded file has another size in the store."""


def is_transient(error: Exception) -> bool:
    """Whether the error may be temporary."""
    if isinstance(error, FileNotFoundError | PermissionError):
        return False
    if isinstance(error, ConnectionError | TimeoutError) or (
        isinstance(error, OSError) and error.errno in _TRANSIENT_CODES
    ):
        return True
    return any(kind.__name__ in _TRANSIENT_NAMES for kind in type(error).__mro__)


def backoff_pauses(tries: int = TRIES) -> Iterator[float]:
    """Yield seconds before each further try: doubled each time, with jitter so that ranks spread."""
    for number in range(tries - 1):
        yield min(0.5 * 2**number, 8.0) * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not cryptography


def retry(work: Callable[[], T], *, pause: Callable[[float], None] = time.sleep) -> T:
    """Run `work`, retrying temporary errors. Raises the last error."""
    for seconds in backoff_pauses():
        try:
            return work()
        except Exception as error:
            if not is_transient(error):
                raise
        pause(seconds)
    return work()


def becomes_true(predicate: Callable[[], bool], within_s: float) -> bool:
    """Whether the predicate is true within so many seconds; it is asked less and less often."""
    deadline = time.monotonic() + within_s
    pauses = itertools.chain(backoff_pauses(tries=5), itertools.repeat(_LONGEST_POLL_S))
    while not predicate():
        seconds = next(pauses)
        if time.monotonic() + seconds > deadline:
            return False
        time.sleep(seconds)
    return True
