"""The endpoint for agents: strangers and silent or slow peers cost little, and delay no other agent."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from windlass.backends.kubernetes.agents import hub


class Host:
    """Welcomes every agent; keeps the messages it receives."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.callers: list[Any] = []
        self.met, self.gone = asyncio.Event(), asyncio.Event()
        self.fault: Exception | None = None

    def welcome(self, hello: Any, caller: Any) -> Callable[[Any], None] | None:
        self.callers.append(caller)
        self.met.set()
        return self._hear if hello["type"] == "hello" else None

    def _hear(self, said: Any) -> None:
        if self.fault is not None:
            raise self.fault
        self.heard.append(said)

    def left(self, _caller: Any) -> None:
        self.gone.set()

    def look(self) -> None:
        pass


Call = Callable[[], Coroutine[Any, Any, tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


def told(story: Callable[[Host, Call], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        host, port = Host(), listener.getsockname()[1]
        serving = asyncio.create_task(hub.serve(listener, host))
        try:
            async with asyncio.timeout(20):
                await story(host, lambda: asyncio.open_connection("127.0.0.1", port, limit=1 << 21))
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    asyncio.run(whole())


def line(**said: Any) -> bytes:
    return json.dumps(said).encode() + b"\n"


async def ends(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read(1) == b""
    except ConnectionError:
        return True


def test_an_agent_that_is_known_may_send_longer_lines_than_a_stranger() -> None:
    async def story(host: Host, call: Call) -> None:
        reader, writer = await call()
        writer.write(line(type="hello") + line(type="beat", why="x" * 300_000))
        assert json.loads(await reader.readline()) == {"type": "beat"}
        assert len(host.heard[0]["why"]) == 300_000
        stranger, his = await call()
        his.write(line(type="hello", why="x" * 300_000))
        assert await ends(stranger)
        assert len(host.callers) == 1

    told(story)


def test_the_oldest_of_too_many_strangers_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_MAX_UNIDENTIFIED", 2)

    async def story(_host: Host, call: Call) -> None:
        known, its = await call()
        its.write(line(type="hello") + line(type="beat"))
        await known.readline()
        strangers = [await call() for _ in range(3)]
        assert await ends(strangers[0][0])
        strangers[2][1].write(line(type="hello") + line(type="beat"))
        assert json.loads(await strangers[2][0].readline()) == {"type": "beat"}
        its.write(line(type="beat"))
        assert json.loads(await known.readline()) == {"type": "beat"}

    told(story)


@pytest.mark.parametrize("fault", [AttributeError("x"), OverflowError("x"), RecursionError("x"), ValueError("x")])
def test_a_malformed_line_closes_the_connection(fault: Exception) -> None:
    async def story(host: Host, call: Call) -> None:
        host.fault = fault
        reader, writer = await call()
        writer.write(line(type="hello") + line(type="beat"))
        assert await ends(reader)
        host.fault = None
        other, its = await call()
        its.write(line(type="hello") + line(type="beat"))
        assert await other.readline()

    told(story)


def test_an_agent_that_reads_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_CLOSE_TIMEOUT_S", 0.01)

    async def story(host: Host, call: Call) -> None:
        before = asyncio.all_tasks()
        _, writer = await call()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(line(type="hello"))
        await host.met.wait()
        talking = asyncio.all_tasks() - before
        while not host.callers[0]._writer.transport.get_write_buffer_size():
            host.callers[0].say({"type": "halt", "why": "x" * 500_000})
        writer.write(b"nonsense\n")
        await host.gone.wait()
        await asyncio.wait(talking)

    told(story)
