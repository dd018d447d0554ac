"""TLS server to which the agents in pods connect: one connection for each agent, one line of JSON for each message.

Reading, timeouts and limits of connections are here; `agent_registry` identifies agents and handles their messages.
No send blocks: an agent that does not read delays no other one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Protocol

import orjson

from windlass.backends.kubernetes.agents.messages import Message
from windlass.backends.kubernetes.agents.rate_limit import MessageLimit
from windlass.backends.kubernetes.agents.tls_stream import TlsStream

_MAX_MESSAGE_BYTES = 1 << 16
"""Maximum bytes of one received message; beyond it the connection is closed. The largest legal one is the first, with
a token of 16 KiB."""
_MAX_UNSENT_BYTES = 1 << 20
"""Maximum bytes of unsent messages; beyond it the connection is closed. An order to start names all members of a gang.
"""
_MAX_UNIDENTIFIED = 512
"""Maximum number of unidentified connections. Beyond it one is closed: the oldest one of the address with most of them.
"""
_HELLO_TIMEOUT_S = 10.0
"""Seconds in which the handshake must be complete and the first message must arrive."""
_IDLE_TIMEOUT_S = 30.0
"""Seconds without a message after which a connection is closed; an agent sends one every two seconds."""
_CLOSE_TIMEOUT_S = 1.0
"""Seconds in which the peer of a closed connection must accept the last messages."""
_CHECK_INTERVAL_S = 1.0
"""Seconds between two calls of `MessageHandler.check_timeouts`."""


class PodAgentConnection:
    """The connection of one agent. `peer_address`: the IP address that it comes from."""

    def __init__(self, writer: asyncio.StreamWriter, stream: TlsStream) -> None:
        self._writer, self._stream = writer, stream
        peer = writer.get_extra_info("peername")
        self.peer_address = str(peer[0]) if peer else ""

    def send(self, message: Message) -> None:
        """Sends a message without blocking; closes the connection if too much is unsent."""
        if not self._writer.is_closing():
            self._stream.write(orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE))
            if self._writer.transport.get_write_buffer_size() > _MAX_UNSENT_BYTES:
                self._writer.transport.abort()

    def close(self) -> None:
        """Closes the connection after the unsent messages."""
        self._writer.close()

    def abort(self) -> None:
        """Closes the connection at once, without the unsent messages."""
        self._writer.transport.abort()


class MessageHandler(Protocol):
    """The consumer of agents' messages. Whatever a message makes it raise ends the connection of that agent."""

    def connect(self, hello: Message, connection: PodAgentConnection) -> Awaitable[Callable[[Message], None] | None]:
        """Called with the first message. Returns the receiver of the next ones; None: the connection is refused.

        Cancelled when the connection ends.
        """

    def disconnect(self, connection: PodAgentConnection) -> None:
        """Called when a connection has ended, identified or not."""

    def refuse(self, connection: PodAgentConnection, error: Exception) -> None:
        """Called with the error of an invalid message, or with RateLimitError, before the connection is closed."""

    def check_timeouts(self) -> None:
        """Called about once a second."""


async def serve(listener: socket.socket, handler: MessageHandler, tls: ssl.SSLContext) -> None:
    """Serves agents until cancelled; then closes all connections. `tls`: context with the operator's certificate."""
    connections: set[asyncio.Task[None]] = set()
    unidentified: dict[PodAgentConnection, None] = {}

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a server's callback is one
        connections.add(task)
        try:
            with contextlib.suppress(asyncio.CancelledError):  # cancelled by `serve`, which closes all connections
                await _serve_connection(handler, TlsStream(tls, reader, writer), writer, unidentified)
        finally:
            connections.discard(task)

    server = await asyncio.start_server(accept, sock=listener, limit=_MAX_MESSAGE_BYTES)
    try:
        while True:
            await asyncio.sleep(_CHECK_INTERVAL_S)
            handler.check_timeouts()
    finally:
        server.close()
        for task in list(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


async def _serve_connection(
    handler: MessageHandler,
    stream: TlsStream,
    writer: asyncio.StreamWriter,
    unidentified: dict[PodAgentConnection, None],
) -> None:
    connection = PodAgentConnection(writer, stream)
    if len(unidentified) >= _MAX_UNIDENTIFIED:
        _drop_one(unidentified)
    unidentified[connection] = None
    try:
        receive = await _identify(handler, await _read_hello(stream), connection, stream)
        unidentified.pop(connection, None)
        clock = asyncio.get_running_loop().time
        limit = MessageLimit(clock())
        while receive is not None:
            async with asyncio.timeout(_IDLE_TIMEOUT_S):
                line = await stream.read_line(_MAX_MESSAGE_BYTES)
            limit.count(len(line), clock())
            receive(message := _parse(line))
            if message["type"] == "beat":
                connection.send({"type": "beat"})
    except (OSError, EOFError):  # the connection was lost
        pass
    except Exception as error:  # noqa: BLE001 - the peer is no agent, or its message makes its gang raise
        handler.refuse(connection, error)
    finally:
        unidentified.pop(connection, None)
        handler.disconnect(connection)
        await _close(writer)


async def _identify(
    handler: MessageHandler, hello: Message, connection: PodAgentConnection, stream: TlsStream
) -> Callable[[Message], None] | None:
    """Returns the result of `MessageHandler.connect`, which it cancels when the connection ends or is dropped."""
    connecting = asyncio.ensure_future(handler.connect(hello, connection))
    ending = asyncio.ensure_future(stream.wait_for_end(_MAX_MESSAGE_BYTES))
    try:
        await asyncio.wait((connecting, ending), return_when=asyncio.FIRST_COMPLETED)
        if not connecting.done():
            ending.result()
        return await connecting
    finally:
        connecting.cancel()
        ending.cancel()
        await asyncio.gather(connecting, ending, return_exceptions=True)


def _drop_one(unidentified: dict[PodAgentConnection, None]) -> None:
    """Closes the oldest connection of the address that has most of them: an agent has one."""
    ((busiest, _),) = Counter(each.peer_address for each in unidentified).most_common(1)
    oldest = next(each for each in unidentified if each.peer_address == busiest)
    del unidentified[oldest]
    oldest.abort()


async def _close(writer: asyncio.StreamWriter) -> None:
    """Closes a connection, even if its peer does not read."""
    writer.close()
    try:
        async with asyncio.timeout(_CLOSE_TIMEOUT_S):
            await writer.wait_closed()
    except OSError:  # includes TimeoutError
        pass
    finally:
        writer.transport.abort()


async def _read_hello(stream: TlsStream) -> Message:
    async with asyncio.timeout(_HELLO_TIMEOUT_S):
        await stream.shake_hands()
        return _parse(await stream.read_line(_MAX_MESSAGE_BYTES))


def _parse(line: bytes) -> Message:
    message = json.loads(line)
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise ValueError(line[:80])  # noqa: TRY004 - any other JSON is an invalid message
    return message
