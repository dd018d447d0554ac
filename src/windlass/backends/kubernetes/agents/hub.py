"""Where agents call: one connection each, a line of JSON for each message, and nobody waits for anybody."""

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
"""Bytes of one message, or of messages that wait to be sent: whoever is beyond that is no agent, or is gone."""
_FIRST = 1 << 16
"""Bytes of the message by which a caller says who it is."""
_STRANGERS = 256
"""Connections that have not said yet who they are; beyond these the oldest is hung up on, and may call again."""
_PATIENCE = 10.0
"""Seconds for a caller to say who it is."""
_SILENT = 30.0
"""Seconds without a word after which a connection is taken for dead; an agent speaks every two."""
_PARTING = 1.0
"""Seconds for a connection that was hung up on to take what was said last."""
_LOOK = 1.0
_NONSENSE = (ValueError, KeyError, TypeError, ArithmeticError, AttributeError, RecursionError)
"""What comes of messages that are none."""


class Caller:
    """The connection of one agent."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    def say(self, message: Message) -> None:
        """Now, or as soon as the other side takes it."""
        if not self._writer.is_closing():
            self._writer.write(orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE))
            if self._writer.transport.get_write_buffer_size() > _MOST:
                self._writer.transport.abort()

    def close(self) -> None:
        """Hang up, once what was said is taken."""
        self._writer.close()

    def hang_up(self) -> None:
        """At once."""
        self._writer.transport.abort()


class Host(Protocol):
    """Whom agents talk to. What makes no sense raises one of `_NONSENSE`."""

    def welcome(self, hello: Message, caller: Caller) -> Callable[[Message], None] | None:
        """Who hears what this caller says from now on; None: it is to call again later, or never."""

    def left(self, caller: Caller) -> None:
        """A connection has ended."""

    def look(self) -> None:
        """Called about once a second."""


async def serve(listener: socket.socket, host: Host) -> None:
    """Answer agents until cancelled; then hang up on all of them."""
    talking: set[asyncio.Task[None]] = set()
    strangers: dict[Caller, None] = {}

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a server's callback is one
        talking.add(task)
        try:
            with contextlib.suppress(asyncio.CancelledError):  # as it is when nobody answers any more
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
    except (OSError, EOFError, *_NONSENSE):  # gone, or no agent
        pass
    finally:
        strangers.pop(caller, None)
        host.left(caller)
        await _part(writer)


async def _part(writer: asyncio.StreamWriter) -> None:
    """Hang up, even on somebody who does not read."""
    writer.close()
    try:
        async with asyncio.timeout(_PARTING):
            await writer.wait_closed()
    except OSError:  # TimeoutError is one
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
    """The next one, however it compares to the reader's own limit. Raises ValueError beyond `most` bytes, EOFError."""
    line = b""
    while len(line) <= most:
        try:
            return line + await reader.readuntil()
        except asyncio.LimitOverrunError as overrun:
            line += await reader.readexactly(overrun.consumed)
    raise ValueError(line[:80])
