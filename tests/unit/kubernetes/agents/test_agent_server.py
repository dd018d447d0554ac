"""The server for agents: unidentified, silent and slow peers cost little, and delay no other agent."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

import pytest

from windlass import wire
from windlass.backends.kubernetes.agents import agent_server
from windlass.backends.kubernetes.agents.rate_limit import RateLimitError
from windlass.server.operator.serving_certificate import make_certificate, server_context


class Handler:
    """Accepts every agent; keeps the messages it receives."""

    def __init__(self) -> None:
        self.received: list[Any] = []
        self.connections: list[Any] = []
        self.connected, self.disconnected = asyncio.Event(), asyncio.Event()
        self.fault: Exception | None = None
        self.refused: list[Exception] = []
        self.never_answers = False
        self.cancelled = asyncio.Event()

    async def connect(self, hello: Any, connection: Any) -> Callable[[Any], None] | None:
        self.connections.append(connection)
        self.connected.set()
        if self.never_answers:
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.set()
        return self._receive if hello["type"] == "hello" else None

    def _receive(self, message: Any) -> None:
        if self.fault is not None:
            raise self.fault
        self.received.append(message)

    def disconnect(self, _connection: Any) -> None:
        self.disconnected.set()

    def refuse(self, _connection: Any, error: Exception) -> None:
        self.refused.append(error)

    def check_timeouts(self) -> None:
        pass


Connect = Callable[..., Coroutine[Any, Any, tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""Opens a connection. Options of `asyncio.open_connection` replace the usual ones."""


def run_with_server(scenario: Callable[[Handler, Connect], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        handler, port = Handler(), listener.getsockname()[1]
        certificate, key = make_certificate([wire.CONTROLLER_NAME], datetime.now(UTC))
        serving = asyncio.create_task(agent_server.serve(listener, handler, server_context(certificate, key)))
        options: dict[str, Any] = {"limit": 1 << 21, "server_hostname": wire.CONTROLLER_NAME}
        options["ssl"] = ssl.create_default_context(cadata=certificate.decode())
        try:
            async with asyncio.timeout(20):
                await scenario(handler, lambda **more: asyncio.open_connection("127.0.0.1", port, **options | more))
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    asyncio.run(run())


def line(**message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


async def is_closed(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read(1) == b""
    except ConnectionError:
        return True


def test_a_line_of_more_than_64_kib_closes_any_connection() -> None:
    async def scenario(handler: Handler, connect: Connect) -> None:
        reader, writer = await connect()
        writer.write(line(type="hello") + line(type="beat", reason="x" * 60_000))
        assert json.loads(await reader.readline()) == {"type": "beat"}
        assert len(handler.received[0]["reason"]) == 60_000
        writer.write(line(type="beat", reason="x" * 70_000))
        assert await is_closed(reader)
        stranger, stranger_writer = await connect()
        stranger_writer.write(line(type="hello", reason="x" * 70_000))
        assert await is_closed(stranger)
        assert len(handler.connections) == 1
        assert [type(each) for each in handler.refused] == [ValueError, ValueError]

    run_with_server(scenario)


@pytest.mark.parametrize(("message", "most"), [(line(type="note"), 101), (line(type="note", text="x" * 60_000), 10)])
def test_an_agent_that_sends_too_much_is_disconnected_with_the_reason(message: bytes, most: int) -> None:
    async def scenario(handler: Handler, connect: Connect) -> None:
        reader, writer = await connect()
        writer.write(line(type="hello") + message * 400)
        assert await is_closed(reader)
        await handler.disconnected.wait()
        assert 0 < len(handler.received) <= most
        (error,) = handler.refused
        assert isinstance(error, RateLimitError)
        assert "20 messages" in str(error)

    run_with_server(scenario)


def test_the_oldest_of_too_many_unidentified_connections_is_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_server, "_MAX_UNIDENTIFIED", 2)

    async def scenario(_handler: Handler, connect: Connect) -> None:
        known, known_writer = await connect()
        known_writer.write(line(type="hello") + line(type="beat"))
        await known.readline()
        strangers = [await connect() for _ in range(3)]
        assert await is_closed(strangers[0][0])
        strangers[2][1].write(line(type="hello") + line(type="beat"))
        assert json.loads(await strangers[2][0].readline()) == {"type": "beat"}
        known_writer.write(line(type="beat"))
        assert json.loads(await known.readline()) == {"type": "beat"}

    run_with_server(scenario)


@pytest.mark.parametrize("more", [b"", line(type="beat")])
def test_the_identification_of_a_connection_that_ends_is_cancelled(more: bytes) -> None:
    async def scenario(handler: Handler, connect: Connect) -> None:
        handler.never_answers = True
        _, writer = await connect()
        writer.write(line(type="hello") + more)
        await handler.connected.wait()
        assert not handler.cancelled.is_set()
        writer.close()
        await handler.cancelled.wait()
        await handler.disconnected.wait()
        assert not handler.refused

    run_with_server(scenario)


def test_the_identification_of_a_dropped_connection_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_server, "_MAX_UNIDENTIFIED", 1)

    async def scenario(handler: Handler, connect: Connect) -> None:
        handler.never_answers = True
        first, writer = await connect()
        writer.write(line(type="hello"))
        await handler.connected.wait()
        await connect()
        await handler.cancelled.wait()
        assert await is_closed(first)

    run_with_server(scenario)


def test_an_unidentified_agent_may_send_no_more_than_one_longest_message() -> None:
    async def scenario(handler: Handler, connect: Connect) -> None:
        handler.never_answers = True
        reader, writer = await connect()
        writer.write(line(type="hello") + line(type="beat", reason="x" * 50_000) * 3)
        assert await is_closed(reader)
        await handler.cancelled.wait()

    run_with_server(scenario)


@pytest.mark.parametrize("fault", [AttributeError, OverflowError, RecursionError, ValueError, RuntimeError])
def test_a_malformed_line_closes_the_connection(fault: type[Exception]) -> None:
    async def scenario(handler: Handler, connect: Connect) -> None:
        handler.fault = fault("x")
        reader, writer = await connect()
        writer.write(line(type="hello") + line(type="beat"))
        assert await is_closed(reader)
        assert [type(each) for each in handler.refused] == [fault]
        handler.fault = None
        other, other_writer = await connect()
        other_writer.write(line(type="hello") + line(type="beat"))
        assert await other.readline()

    run_with_server(scenario)


def test_an_agent_that_reads_nothing_delays_no_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_server, "_CLOSE_TIMEOUT_S", 0.01)

    async def scenario(handler: Handler, connect: Connect) -> None:
        before = asyncio.all_tasks()
        _, writer = await connect()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(line(type="hello"))
        await handler.connected.wait()
        serving = asyncio.all_tasks() - before
        while not handler.connections[0]._writer.transport.get_write_buffer_size():
            handler.connections[0].send({"type": "halt", "reason": "x" * 500_000})
        writer.write(b"nonsense\n")
        await handler.disconnected.wait()
        await asyncio.wait(serving)

    run_with_server(scenario)


def test_the_address_with_most_unidentified_connections_loses_the_oldest_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agent_server, "_MAX_UNIDENTIFIED", 4)

    async def scenario(_handler: Handler, connect: Connect) -> None:
        agent, agent_writer = await connect(local_addr=("127.0.0.2", 0))
        strangers = [await connect(local_addr=("127.0.0.3", 0)) for _ in range(6)]
        assert [await is_closed(reader) for reader, _ in strangers[:3]] == [True] * 3
        agent_writer.write(line(type="hello") + line(type="beat"))
        assert json.loads(await agent.readline()) == {"type": "beat"}

    run_with_server(scenario)


def test_a_peer_without_tls_is_closed_before_anything_is_read_as_a_message() -> None:
    async def scenario(handler: Handler, connect: Connect) -> None:
        reader, writer = await connect(ssl=None, server_hostname=None)
        writer.write(line(type="hello") * 3)
        await reader.read(1 << 16)
        assert await is_closed(reader)
        assert (handler.connections, handler.received, handler.refused) == ([], [], [])

    run_with_server(scenario)
