"""Attacks on the operator's port for probes and metrics, by clients that may connect and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest

import strays
from windlass.server.operator.bounded_http import DEFAULT_LIMITS, HttpLimits, bounded_server
from windlass.server.operator.endpoints import DEFAULT_SETTINGS, Endpoints, EndpointSettings, listen
from windlass.server.operator.history.store import JobHistory
from windlass.server.operator.metrics import OperatorMetrics

SHORT = HttpLimits(header_timeout_s=0.3, request_timeout_s=0.6)
PROBE = b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
BODY = 60 << 20

Story = Callable[[int], Awaitable[None]]


@contextlib.asynccontextmanager
async def endpoints(limits: HttpLimits, settings: EndpointSettings = DEFAULT_SETTINGS) -> AsyncIterator[int]:
    """The port of a follower that serves probes and metrics."""
    async with JobHistory("sqlite:///:memory:", lambda: 0, print) as history:
        served = Endpoints(OperatorMetrics(), history, settings)
        listener = listen("127.0.0.1", 0)
        port = listener.getsockname()[1]
        serving = asyncio.create_task(served.serve(listener, limits))
        try:
            yield port
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


def tell(story: Story, limits: HttpLimits = DEFAULT_LIMITS) -> None:
    async def told() -> None:
        async with asyncio.timeout(strays.TIMEOUT_S * 2), endpoints(limits) as port:
            await story(port)

    asyncio.run(told())


async def ask(port: int, request: bytes) -> bytes:
    """All that the server answers until it closes the connection; nothing more is sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        return await read_all(reader)
    finally:
        writer.close()


async def read_all(reader: asyncio.StreamReader) -> bytes:
    found = bytearray()
    with contextlib.suppress(ConnectionError):
        while part := await reader.read(1 << 16):
            found += part
    return bytes(found)


def status(answer: bytes) -> int:
    return int(answer.split()[1])


@pytest.mark.parametrize("path", [b"/healthz", b"/v1/jobs", b"/"])
def test_a_body_of_60_mib_is_refused_unread(path):
    async def story(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST %b HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (path, BODY))
        part, sent = b"[[]," * (1 << 14), 0
        tracemalloc.start()
        try:
            with contextlib.suppress(ConnectionError):
                while sent < BODY:
                    writer.write(part)
                    await writer.drain()
                    sent += len(part)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        answer = await read_all(reader)
        assert not answer or status(answer) == 405
        assert sent < BODY / 2  # what the kernel has buffered
        assert peak < 8 << 20
        writer.close()
        assert status(await ask(port, PROBE)) == 200

    tell(story)


@pytest.mark.parametrize("header", [b"Content-Length: 5", b"Transfer-Encoding: chunked"])
def test_a_get_request_with_a_body_is_refused(header):
    async def story(port: int) -> None:
        answer = await ask(port, b"GET /metrics HTTP/1.1\r\nHost: a\r\n%b\r\n\r\n" % header)
        assert status(answer) == 413
        assert b"connection: close" in answer.lower()

    tell(story)


@pytest.mark.parametrize("path", [b"/healthz", b"/readyz", b"/metrics", b"/v1/jobs", b"/v1/down", b"/unknown"])
@pytest.mark.parametrize("method", [b"POST", b"PUT", b"DELETE", b"PATCH", b"OPTIONS", b"CONNECT", b"TRACE"])
def test_every_method_but_get_and_head_is_refused(method, path):
    async def story(port: int) -> None:
        answer = await ask(port, method + b" " + path + b" HTTP/1.1\r\nHost: a\r\n\r\n")
        assert status(answer) == 405
        assert b"allow: get, head" in answer.lower()

    tell(story)


def test_400_half_open_requests_leave_the_probes_answered():
    """The requests come from another address than the probe, as a pod's do."""

    async def story(port: int) -> None:
        half_open = []
        for number in range(400):
            pair = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.9", 0))
            with contextlib.suppress(ConnectionError):
                pair[1].write(b"GET /metrics HTTP/1.1\r\nHost: a\r\nX-Number: %d" % number)
            half_open.append(pair)
        assert status(await ask(port, PROBE)) == 200
        assert not any(b"HTTP" in answer for answer in await asyncio.gather(*(read_all(each) for each, _ in half_open)))
        for _, writer in half_open:
            writer.close()

    tell(story, SHORT)


def test_connections_beyond_the_limit_are_closed_at_once():
    async def story(port: int) -> None:
        first = [await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.9", 0)) for _ in range(2)]
        reader, beyond = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.9", 0))
        assert await read_all(reader) == b""  # the others stay open: this limit is of one peer
        reader, other = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.8", 0))
        other.write(PROBE)
        assert status(await read_all(reader)) == 200
        first += [await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.7", 0)) for _ in range(2)]
        assert await ask(port, PROBE) == b""  # five would be too many in total
        for _, writer in (*first, (None, beyond), (None, other)):
            writer.close()
        while not await ask(port, PROBE):  # noqa: ASYNC110 - the server notices the ends in its own time
            await asyncio.sleep(0.01)

    tell(story, replace(DEFAULT_LIMITS, connections=4, per_peer=2))


@pytest.mark.parametrize("drip", [b"X-Drip: a\r\n", b"GET"])
def test_a_header_that_never_ends_is_cut_off(drip):
    async def story(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        reading = asyncio.create_task(read_all(reader))
        if drip != b"GET":
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\n")
        while not reading.done():
            with contextlib.suppress(ConnectionError):
                writer.write(drip)
            await asyncio.sleep(0.05)
        assert b"200" not in reading.result()
        writer.close()

    tell(story, SHORT)


def test_a_second_request_on_a_connection_has_the_same_limits():
    async def story(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(PROBE.replace(b"Connection: close\r\n", b""))
        assert b"200" in await reader.readline()
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-Half: ")
        assert b"200" not in await read_all(reader)
        writer.close()

    tell(story, SHORT)


def test_a_reader_that_never_reads_is_cut_off():
    """Pipelined requests fill the buffers of a client that reads nothing."""

    async def story(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 10)
        request = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * 5_000
        with pytest.raises(ConnectionError):  # noqa: PT012 - any of the writes may notice it
            while True:
                writer.write(request)
                await writer.drain()
                await asyncio.sleep(0)
        writer.close()
        assert reader

    tell(story, SHORT)


@pytest.mark.parametrize("size", [20_000, 5_000_000])
def test_a_huge_header_is_refused(size):
    async def story(port: int) -> None:
        answer = await ask(port, b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-Huge: " + b"a" * size)
        assert not answer or status(answer) == 400

    tell(story)


def test_unknown_paths_are_not_found():
    async def story(port: int) -> None:
        queries = (b"/v1/jobs", b"/apis/queries.windlass.dev/v1/jobs")
        for path in (*queries, b"/", b"/unknown", b"/healthz/more", b"/%00", b"/" + b"a" * 4_000):
            assert status(await ask(port, PROBE.replace(b"/healthz", path))) == 404

    tell(story)


def test_head_is_answered_as_get():
    async def story(port: int) -> None:
        head, _, body = (await ask(port, PROBE.replace(b"GET", b"HEAD"))).partition(b"\r\n\r\n")
        assert (status(head), body) == (200, b"")

    tell(story)


def test_protected_metrics_are_not_on_the_port_of_the_probes():
    async def story() -> None:
        async with endpoints(DEFAULT_LIMITS, EndpointSettings(protect_metrics=True)) as port:
            assert status(await ask(port, PROBE.replace(b"/healthz", b"/metrics"))) == 403
            assert status(await ask(port, PROBE)) == 200

    asyncio.run(story())


BODIES = HttpLimits(body_bytes=100, body_timeout_s=0.2, streams=frozenset({"/stream"}), request_timeout_s=0.6)


async def echo(scope, receive, send):
    """Answers with the body of the request; an answer on /stream or /slow never ends."""
    if scope["path"] in ("/stream", "/slow"):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while (await receive())["type"] != "http.disconnect":
            await send({"type": "http.response.body", "body": b"data: 1", "more_body": True})
        return
    body = (await receive())["body"]
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


def tell_echo(story: Story, limits: HttpLimits = BODIES) -> None:
    async def told() -> None:
        listener = listen("127.0.0.1", 0)
        port = listener.getsockname()[1]
        serving = asyncio.create_task(bounded_server(echo, limits).serve_until_cancelled(listener))
        try:
            async with asyncio.timeout(strays.TIMEOUT_S):
                await story(port)
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    asyncio.run(told())


def post(*headers: bytes, body: bytes = b"") -> bytes:
    return b"\r\n".join((b"POST / HTTP/1.1", b"Host: a", b"Connection: close", *headers, b"", body))


def test_a_port_that_takes_bodies_passes_small_ones_on_whole():
    async def story(port: int) -> None:
        for body in (b"", b"a", b"a" * 100):
            answer = await ask(port, post(b"Content-Length: %d" % len(body), body=body))
            assert (status(answer), answer.partition(b"\r\n\r\n")[2]) == (200, body)
        assert status(await ask(port, post())) == 200
        answer = await ask(port, PROBE.replace(b"GET", b"PUT"))
        assert (status(answer), b"allow: get, head, post" in answer.lower()) == (405, True)

    tell_echo(story)


@pytest.mark.parametrize(
    "headers",
    [(b"Content-Length: 101",), (b"Content-Length: 99999999999999",), (b"Transfer-Encoding: chunked",)],
)
def test_a_body_that_is_too_large_or_of_unknown_size_is_refused_unread(headers):
    async def story(port: int) -> None:
        answer = await ask(port, post(*headers))
        assert (status(answer), b"at most 100 bytes" in answer) == (413, True)

    tell_echo(story)


def test_a_body_that_never_comes_is_cut_off():
    async def story(port: int) -> None:
        assert status(await ask(port, post(b"Content-Length: 5", body=b"ab"))) == 408

    tell_echo(story)


def test_only_the_paths_of_streams_may_answer_for_longer():
    async def story(port: int) -> None:
        loop = asyncio.get_running_loop()
        for path, least, most in ((b"/slow", 0.3, 1.0), (b"/stream", 1.2, strays.TIMEOUT_S)):
            began = loop.time()
            await ask(port, PROBE.replace(b"/healthz", path))
            assert least < loop.time() - began < most, path

    tell_echo(story, replace(BODIES, request_timeout_s=0.4, stream_timeout_s=1.3))
