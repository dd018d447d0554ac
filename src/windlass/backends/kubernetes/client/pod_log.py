"""Reads the end of a pod's log. The API counts it in lines; its limit of bytes would cut off the end itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from windlass.backends.kubernetes.client.api_errors import Unreachable
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.resources import PODS, path


async def read_log_end(
    connection: Connection, namespace: str, pod: str, params: Mapping[str, str], max_bytes: int, within: float
) -> bytes:
    """Returns at most the last `max_bytes` of the lines that `params` select. Raises ApiError, Unreachable."""
    kept = bytearray()
    try:
        async with (
            asyncio.timeout(within),
            connection.stream(path(PODS, namespace, pod, "log"), dict(params), within) as pieces,
        ):
            async for piece in pieces:
                kept += piece
                if len(kept) > 2 * max_bytes:
                    del kept[:-max_bytes]
    except TimeoutError:
        raise Unreachable(f"the log of pod {pod} was not sent within {within:g} s") from None
    return bytes(kept[-max_bytes:])
