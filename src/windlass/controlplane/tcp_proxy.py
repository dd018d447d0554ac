"""A TCP proxy in front of an API server that can be cut, slowed or silenced; each client gets its own.

TLS goes through it untouched, so any kubeconfig works: `plane.user(name, groups, url=proxy.url)`.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit


class TcpProxy:
    """`async with TcpProxy(plane.url) as proxy`. Faults can be set and cleared at any time."""

    def __init__(self, target: str, listen: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        parts = urlsplit(target)
        if not parts.hostname or not parts.port:
            raise ValueError(f"{target}: a URL with host and port is needed")
        self._target = (parts.hostname, parts.port)
        self._listen = listen
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.refuses = False
        """Whether new connections are closed at once; cut() ends existing ones."""
        self.drops = False
        """Whether data is dropped in both directions without an error. After cut() the dropped data is missing."""
        self.delay = 0.0
        """Seconds of delay of every piece of data, in each direction."""
        self.passed = 0
        """Number of bytes passed on."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, *self._listen)
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._open.close()
        self.cut()

    @property
    def url(self) -> str:
        """The URL that leads to the API server through this proxy."""
        return f"https://127.0.0.1:{self._open.sockets[0].getsockname()[1]}"

    @property
    def _open(self) -> asyncio.Server:
        if self._server is None:
            raise RuntimeError("no port yet: use it as `async with TcpProxy(url) as proxy`")
        return self._server

    def cut(self) -> None:
        """Aborts all connections."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuses:
            writer.transport.abort()
            return
        try:
            other_reader, other_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        both = {writer, other_writer}
        self._writers |= both
        with suppress(OSError, asyncio.CancelledError):
            await asyncio.gather(self._pass(reader, other_writer), self._pass(other_reader, writer))
        for each in both:
            each.transport.abort()
        self._writers -= both

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if self.delay:
                await asyncio.sleep(self.delay)
            if not self.drops:
                writer.write(data)
                self.passed += len(data)
                await writer.drain()
        writer.write_eof()
