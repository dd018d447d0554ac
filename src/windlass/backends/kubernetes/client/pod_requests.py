"""Requests to a server in a pod, whose answers are those of a user's program: bounded in time and size."""

from __future__ import annotations

import orjson
from aiohttp import ClientError, ClientSession, ClientTimeout, DummyCookieJar
from yarl import URL

_TIMEOUT_S = 10.0
_MAX_BYTES = 1 << 20


async def read_json(host: str, port: int, path: str) -> object | None:
    """Returns the JSON that a server in a pod answers; None for any other answer, and for none."""
    address = URL.build(scheme="http", host=host, port=port, path=path)
    try:
        async with (
            ClientSession(timeout=ClientTimeout(total=_TIMEOUT_S), cookie_jar=DummyCookieJar()) as session,
            session.get(address, allow_redirects=False) as answer,
        ):
            body = await answer.content.read(_MAX_BYTES) if answer.status == 200 else b""
            while body and len(body) < _MAX_BYTES and (more := await answer.content.read(_MAX_BYTES - len(body))):
                body += more
            found: object = orjson.loads(body)
    except (ClientError, OSError, TimeoutError, ValueError):
        return None
    return found
