"""Reads the start and the end of a pod's log.

The API counts the end in lines: its limit of bytes counts from the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from windlass.backends.kubernetes.client.connection import Connection, stream_within
from windlass.backends.kubernetes.client.resources import PODS, path


class LogStart(NamedTuple):
    """The first lines of a log. `is_all`: the log has no more."""

    text: str
    is_all: bool

    def joined(self, end: str) -> str:
        """Returns this with the last lines of the same log, which were read before."""
        return self.text if self.is_all else self.text + end


async def read_log_start(
    connection: Connection, namespace: str, pod: str, params: Mapping[str, str], max_bytes: int, within: float
) -> LogStart:
    """Returns the lines that end within the first `max_bytes` of a log. Raises ApiError, Unreachable."""
    limits = {**params, "limitBytes": str(max_bytes)}
    kept = bytearray()
    url, about = path(PODS, namespace, pod, "log"), f"the log of pod {pod}"
    async with stream_within(connection, url, limits, within, about) as pieces:
        async for piece in pieces:
            kept += piece
            if len(kept) >= max_bytes:
                break
    is_all = len(kept) < max_bytes
    whole = len(kept) if is_all else (kept.rfind(b"\n", 0, max_bytes) + 1 or max_bytes)
    return LogStart(kept[:whole].decode("utf-8", "replace"), is_all)


async def read_log_end(
    connection: Connection, namespace: str, pod: str, params: Mapping[str, str], max_bytes: int, within: float
) -> bytes:
    """Returns at most the last `max_bytes` of the lines that `params` select. Raises ApiError, Unreachable."""
    kept = bytearray()
    url, about = path(PODS, namespace, pod, "log"), f"the log of pod {pod}"
    async with stream_within(connection, url, dict(params), within, about) as pieces:
        async for piece in pieces:
            kept += piece
            if len(kept) > 2 * max_bytes:
                del kept[:-max_bytes]
    return bytes(kept[-max_bytes:])
