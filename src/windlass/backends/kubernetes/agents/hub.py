"""The server that agents connect to: one connection each, a line of JSON per message, no blocking."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Callable
from typing import Protocol

import orjson

from windlass.backends.kubernetes.agents.messages import Message

_MOST = 1 << 20
"""Maximum bytes of one message, or of unsent messages: a peer beyond that is no agent, or is gone."""
_FIRST = 1 << 16
"""Maximum bytes of the first message, which identifies the caller."""
_STRANGERS = 256
"""Maximum number of unidentified connections; beyond it the oldest is closed, and its agent may connect again."""
_PATIENCE = 10.0
"""Seconds for a caller to identify itself."""
_SILENT = 30.0
"""Seconds without a message after which a connection counts as dead; an agent sends one every two seconds."""
_PARTING = 1.0
"""Seconds for a closed connection to accept the last messages."""
_LOOK = 1.0
_NONSENSE = (ValueError, KeyError, TypeError, ArithmeticError, AttributeError, RecursionError)
"""Exceptions caused by invalid messages."""


class Caller:
    """The connection of one agent."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    def say(self, message: Message) -> None:
        """Sends now, or as soon as the peer accepts it."""
        if not self._writer.is_closing():
            self._writer.write(orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE))
            if self._writer.transport.get_write_buffer_size() > _MOST:
                self._writer.transport.abort()

    def close(self) -> None:
        """Closes after the pending messages were sent."""
        self._writer.close()

    def hang_up(self) -> None:
        """Closes at once."""
        self._writer.transport.abort()


class Host(Protocol):
    """The consumer of agents' messages. Invalid messages raise one of `_NONSENSE`."""

    def welcome(self, hello: Message, caller: Caller) -> Callable[[Message], None] | None:
        """Returns the receiver of this caller's messages; None: the connection is refused."""

    def left(self, caller: Caller) -> None:
        """Called when a connection has ended."""

    def look(self) -> None:
        """Called about once a second."""


async def serve(listener: socket.socket, host: Host) -> None:
    """Serves agents until cancelled; then closes all connections."""
    talking: set[asyncio.Task[None]] = set()
    strangers: dict[Caller, None] = {}

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a server's callback is one
        talking.add(task)
        try:
            with contextlib.suppress(asyncio.CancelledError):  # the same as when nothing answers any more
                await _talk(host, reader, writer, strangers)
        finally:
            talking.discard(task)

    server = await asyncio.start_server(talk, sock=listener, limit=_FIRST)
    try:
        while True:
            await asyncio.sleep(_LOOK)
            host.look()
    finally:
        server.close()
        for task in list(talking):
            task.cancel()
        await asyncio.gather(*talking, return_exceptions=True)


async def _talk(
    host: Host, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, strangers: dict[Caller, None]
) -> None:
    caller = Caller(writer)
    if len(strangers) >= _STRANGERS:
        oldest = next(iter(strangers))
        del strangers[oldest]
        oldest.hang_up()
    strangers[caller] = None
    try:
        hear = host.welcome(await _message(reader, _PATIENCE, _FIRST), caller)
        strangers.pop(caller, None)
        while hear is not None:
            said = await _message(reader, _SILENT, _MOST)
            hear(said)
            if said["type"] == "beat":
                caller.say({"type": "beat"})
    except (OSError, EOFError, *_NONSENSE):  # ended, or no agent
        pass
    finally:
        strangers.pop(caller, None)
        host.left(caller)
        await _part(writer)


async def _part(writer: asyncio.StreamWriter) -> None:
    """Closes, even if the peer does not read."""
    writer.close()
    try:
        async with asyncio.timeout(_PARTING):
            await writer.wait_closed()
    except OSError:  # includes TimeoutError
        pass
    finally:
        writer.transport.abort()


async def _message(reader: asyncio.StreamReader, patience: float, most: int) -> Message:
    async with asyncio.timeout(patience):
        line = await _line(reader, most)
    said = json.loads(line)
    if not isinstance(said, dict) or not isinstance(said.get("type"), str):
        raise ValueError(line[:80])  # noqa: TRY004 - whatever it is, it is no message
    return said


async def _line(reader: asyncio.StreamReader, most: int) -> bytes:
    """Reads a line, independent of the reader's limit. Raises ValueError beyond `most` bytes, EOFError."""
    line = b""
    while len(line) <= most:
        try:
            return line + await reader.readuntil()
        except asyncio.LimitOverrunError as overrun:
            line += await reader.readexactly(overrun.consumed)
    raise ValueError(line[:80])
