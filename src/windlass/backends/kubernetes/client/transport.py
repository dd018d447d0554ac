"""One attempt at one request: sockets, credentials, the leadership check, and error translation."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, Self
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from windlass.backends.kubernetes.client.access import Access, Identity
from windlass.backends.kubernetes.client.api_errors import NotLeader, Outcome, Unreachable, error_of_reply
from windlass.backends.kubernetes.client.request_counters import RequestCounters
from windlass.backends.kubernetes.client.retries import READS

_TLS_SETTINGS = re.compile(r" ssl:(<[^>]*>|\w+)")
"""Part of aiohttp's connection errors that is left out of messages."""
CONNECT_TIMEOUT_S = 10.0
WATCH_START_TIMEOUT_S = 20.0
"""Seconds until a watch must be accepted. The server accepts at once; this is its longest time in the server's queue.
"""
KEEPALIVE_S = 60.0
"""Seconds for which an idle connection is kept: less than the API server's 90 s, so that no request meets a closed one.
"""
BUFFER_BYTES = 2**19
"""Bytes of a reply that wait to be read; a watch's batch is at most twice that."""


class Transport:
    """An async context manager; leaving it closes every connection and stream."""

    def __init__(self, access: Access, *, may_write: Callable[[], bool], limit: int, counters: RequestCounters) -> None:
        self.access = access
        self._counters = counters
        self._may_write = may_write
        self._limit = limit
        self._renewing = asyncio.Lock()
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._limit, keepalive_timeout=KEEPALIVE_S),
            request_class=_fenced(self._may_write),
            headers={"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "windlass"},
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            read_bufsize=BUFFER_BYTES,
        )
        # aiohttp would repeat a DELETE itself when a kept connection breaks; `retries` alone decides that
        self._session._retry_connection = False  # noqa: SLF001 - there is no public way, and a test holds it to that
        return self

    async def __aexit__(self, *_: object) -> None:
        # a request that begins during the close finds no session, which is an outage and not a fault of the program
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def exchange(
        self,
        method: str,
        path: str,
        data: bytes | None,
        params: Mapping[str, str],
        content_type: str,
        seconds: float,
    ) -> bytes:
        """Returns the body of a success. Raises ApiError, Unreachable, NotLeader (nothing was sent) and AccessError."""
        headers = {} if data is None else {"Content-Type": content_type}
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_TIMEOUT_S)
        began, status = time.monotonic(), None
        try:
            with _translated_errors(self.access.server):
                async with await self._send(method, path, params, headers, data=data, timeout=timeout) as response:
                    body = await response.read()
                    status = response.status
        finally:
            self._counters.count_request(method, path, status, time.monotonic() - began)
        if response.status >= 300:
            raise error_of_reply(response.status, response.headers.get("Retry-After"), body)
        return body

    @contextlib.asynccontextmanager
    async def stream(self, path: str, params: Mapping[str, str], silence: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Streams the body of a GET in pieces. Ends after `silence` seconds without a byte."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=silence)
        self._counters.count_watch(path)
        with _translated_errors(self.access.server):
            async with await self._send(
                "GET", path, params, {}, begins=WATCH_START_TIMEOUT_S, timeout=timeout
            ) as response:
                if response.status >= 300:
                    raise error_of_reply(response.status, response.headers.get("Retry-After"), await response.read())
                with contextlib.suppress(TimeoutError):
                    yield response.content.iter_any()

    async def _send(self, *request: Any, **more: Any) -> aiohttp.ClientResponse:
        """Returns the reply as soon as it begins. Repeats a request answered with 401 once, with new credentials."""
        identity = await self.access.identify(False)
        response = await self._send_as(identity, *request, **more)
        if response.status != 401:
            return response
        response.close()
        return await self._send_as(await self._renewed(identity), *request, **more)

    async def _renewed(self, rejected: Identity) -> Identity:
        """Renews credentials, once for all requests that were refused together."""
        async with self._renewing:
            identity = await self.access.identify(False)
            return identity if identity is not rejected else await self.access.identify(True)

    async def _send_as(
        self,
        identity: Identity,
        method: str,
        path: str,
        params: Mapping[str, str],
        headers: dict[str, str],
        *,
        begins: float | None = None,
        **more: Any,
    ) -> aiohttp.ClientResponse:
        if self._session is None:
            raise Unreachable("the connection is not open", Outcome.REFUSED)
        if identity.authorization:
            headers["Authorization"] = identity.authorization
        query = "?" + urlencode(params) if params else ""
        async with asyncio.timeout(begins):
            return await self._session.request(
                method,
                URL(f"{self.access.server}{path}{query}", encoded=True),
                headers=headers,
                ssl=identity.tls if identity.tls is not None else True,
                server_hostname=self.access.server_name,
                proxy=self.access.proxy,
                allow_redirects=False,
                **more,
            )


def _fenced(may_write: Callable[[], bool]) -> type[aiohttp.ClientRequest]:
    """Returns a request class that checks again when it holds a connection: waiting for one can outlast a lease."""

    class Fenced(aiohttp.ClientRequest):
        async def send(self, conn: Any) -> aiohttp.ClientResponse:
            if self.method not in READS and not may_write():
                raise NotLeader(f"{self.method} {self.url.path} was not sent: this process may not write now")
            return await super().send(conn)

    return Fenced


@contextlib.contextmanager
def _translated_errors(server: str) -> Iterator[None]:
    try:
        yield
    except aiohttp.ClientConnectorCertificateError as error:
        raise Unreachable(
            f"{server} is not who the configuration says: {plain_message(error)}", Outcome.REFUSED
        ) from error
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        raise Unreachable(f"no connection to {server}: {plain_message(error)}", Outcome.NOT_DONE) from error
    except TimeoutError as error:
        raise Unreachable(f"{server} did not answer in time") from error
    except (aiohttp.ClientError, OSError) as error:
        raise Unreachable(f"{server} ended the connection: {plain_message(error)}") from error


def plain_message(error: Exception) -> str:
    """Returns the message of an error, without the TLS settings that aiohttp adds."""
    return _TLS_SETTINGS.sub("", str(error)) or type(error).__name__
