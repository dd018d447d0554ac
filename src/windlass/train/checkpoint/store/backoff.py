"""Trying again where a store or a network may do better the next time."""

from __future__ import annotations

import errno
import random
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")

_PASSING = (errno.EBUSY, errno.EREMOTEIO, errno.EIO, errno.EAGAIN, errno.ENETUNREACH, errno.EHOSTUNREACH)
_PASSING_NAMES = frozenset(
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
        "ShortReadError",
    )
)
"""Of botocore, aiohttp and fsspec, by name: none of them is loaded for this."""

TRIES = 3
"""On top of those that a store's own client makes at once: S3's spends some ten seconds on each."""


class ShortReadError(OSError):
    """Fewer bytes than the store had announced."""


def passes(error: Exception) -> bool:
    """Whether this may be over in a moment."""
    if isinstance(error, FileNotFoundError | PermissionError):
        return False
    if isinstance(error, ConnectionError | TimeoutError) or (isinstance(error, OSError) and error.errno in _PASSING):
        return True
    return any(kind.__name__ in _PASSING_NAMES for kind in type(error).__mro__)


def pauses(tries: int = TRIES) -> Iterator[float]:
    """Seconds before each further try: doubled each time, and no two ranks' alike."""
    for number in range(tries - 1):
        yield min(0.5 * 2**number, 8.0) * random.uniform(0.5, 1.0)  # noqa: S311 - spreads ranks, hides nothing


def retried(work: Callable[[], T], *, pause: Callable[[float], None] = time.sleep) -> T:
    """Do it, again while what goes wrong may pass. Raises what went wrong last."""
    for seconds in pauses():
        try:
            return work()
        except Exception as error:
            if not passes(error):
                raise
        pause(seconds)
    return work()
