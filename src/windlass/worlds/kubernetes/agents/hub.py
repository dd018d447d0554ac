"""Where agents call: one connection each, a line of JSON for each message, and nobody waits for anybody."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Callable
from typing import Protocol

import orjson

from windlass.worlds.kubernetes.agents.meeting import Message

_MOST = 1 << 20
"""Bytes of one message, or of messages that wait to be sent: whoever is beyond that is no agent, or is gone."""
_PATIENCE = 10.0
"""Seconds for a caller to say who it is."""
_SILENT = 30.0
"""Seconds without a word after which a connection is taken for dead; an agent speaks every two."""
_LOOK = 1.0


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
        """Hang up."""
        self._writer.close()


class Host(Protocol):
    """Whom agents talk to. What makes no sense raises ValueError, KeyError or TypeError."""

    def welcome(self, hello: Message, caller: Caller) -> Callable[[Message], None] | None:
        """Who hears what this caller says from now on; None: it is to call again later, or never."""

    def left(self, caller: Caller) -> None:
        """A connection has ended."""

    def look(self) -> None:
        """Called about once a second."""


async def serve(listener: socket.socket, host: Host) -> None:
    """Answer agents until cancelled; then hang up on all of them."""
    talking: set[asyncio.Task[None]] = set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a server's callback is one
        talking.add(task)
        with contextlib.suppress(asyncio.CancelledError):  # as it is when nobody answers any more
            await _talk(host, reader, writer)
        talking.discard(task)

    server = await asyncio.start_server(talk, sock=listener, limit=_MOST)
    try:
        while True:
            await asyncio.sleep(_LOOK)
            host.look()
    finally:
        server.close()
        for task in list(talking):
            task.cancel()
        await asyncio.gather(*talking, return_exceptions=True)


async def _talk(host: Host, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    caller = Caller(writer)
    try:
        hear = host.welcome(await _message(reader, _PATIENCE), caller)
        while hear is not None:
            said = await _message(reader, _SILENT)
            hear(said)
            if said["say"] == "beat":
                caller.say({"say": "beat"})
    except (OSError, TimeoutError, ValueError, KeyError, TypeError):  # gone, or no agent
        pass
    finally:
        host.left(caller)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _message(reader: asyncio.StreamReader, patience: float) -> Message:
    async with asyncio.timeout(patience):
        line = await reader.readline()
    said = json.loads(line) if line.endswith(b"\n") else None
    if not isinstance(said, dict) or not isinstance(said.get("say"), str):
        raise ValueError(line[:80])  # noqa: TRY004 - whatever it is, it is no message
    return said
