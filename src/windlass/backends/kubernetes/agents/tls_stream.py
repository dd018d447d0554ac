"""The operator's side of a TLS connection: lines in, bytes out.

The TLS of asyncio's streams reserves 256 KiB for each connection, and calls back after the handshake only. Here a
connection costs what it has received, and counts as unidentified from its first byte.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import NoReturn

_CHUNK_BYTES = 1 << 16


class TlsStream:
    """One connection. Every error of it is an OSError, EOFError or ValueError."""

    def __init__(self, context: ssl.SSLContext, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._unread = bytearray()

    async def shake_hands(self) -> None:
        """Completes the handshake."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._receive()
            else:
                break
            finally:
                self._flush()

    async def read_line(self, max_bytes: int) -> bytes:
        """Reads a line, without its end. Raises ValueError beyond `max_bytes`, EOFError at the end."""
        searched = 0
        while (end := self._unread.find(b"\n", searched)) < 0:
            searched = len(self._unread)
            if searched > max_bytes:
                raise ValueError(bytes(self._unread[:80]))
            self._unread += await self._decrypted()
        if end > max_bytes:
            raise ValueError(bytes(self._unread[:80]))
        line = bytes(self._unread[:end])
        del self._unread[: end + 1]
        return line

    async def wait_for_end(self, max_bytes: int) -> NoReturn:
        """Waits for the end of the connection, and keeps what arrives until then for `read_line`.

        Raises EOFError or OSError at the end, ValueError beyond `max_bytes`. May be cancelled without loss.
        """
        while len(self._unread) <= max_bytes:
            self._unread += await self._decrypted()
        raise ValueError(bytes(self._unread[:80]))

    def write(self, data: bytes) -> None:
        """Sends data without blocking."""
        self._tls.write(data)
        self._flush()

    async def _decrypted(self) -> bytes:
        while True:
            try:
                data = self._tls.read(_CHUNK_BYTES)
            except ssl.SSLWantReadError:
                self._flush()  # an answer to a message of TLS itself
                await self._receive()
                continue
            if not data:
                raise EOFError
            return data

    async def _receive(self) -> None:
        self._flush()
        data = await self._reader.read(_CHUNK_BYTES)
        if not data:
            raise EOFError
        self._incoming.write(data)

    def _flush(self) -> None:
        if self._outgoing.pending and not self._writer.is_closing():
            self._writer.write(self._outgoing.read())
