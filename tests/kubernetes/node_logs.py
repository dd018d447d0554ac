"""Kubelets that have only logs: an API server asks them for the logs of pods on fake nodes."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import chain, islice, repeat

from aiohttp import web

from windlass.controlplane.api import Api
from windlass.controlplane.cluster import ControlPlane


@dataclass(frozen=True, slots=True)
class LongLog:
    """A log that is longer than a test holds in memory: first lines, one line `repeats` times, last lines."""

    first: str
    repeated: str
    repeats: int
    last: str

    def __len__(self) -> int:
        return len(self.first) + self.repeats * len(self.repeated) + len(self.last)

    def pieces(self, lines: int | None, size: int) -> Iterator[str]:
        """Yields the last `lines` (None: all) of it, at most `size` characters."""
        count = self.repeats if lines is None else max(0, lines - self.last.count("\n"))
        parts = chain([self.first] if lines is None else (), repeat(self.repeated, count), [self.last])
        for part in parts:
            yield part[:size]
            size -= len(part)
            if size <= 0:
                return


@asynccontextmanager
async def logs_of_nodes(
    plane: ControlPlane, api: Api, log_of: Callable[[str], str | LongLog], nodes: Sequence[str] = ("n1", "n2")
) -> AsyncIterator[list[str]]:
    """Serves the log of each pod by the pod's name until the end of the block. Yields the paths of the requests."""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        log = log_of(request.match_info["pod"])
        if isinstance(log, LongLog):
            return await _stream(request, log)
        lines = log.splitlines(keepends=True)
        last = int(request.query.get("tailLines", len(lines)))
        text = "".join(lines[-last:] if last else [])
        return web.Response(text=text[: int(request.query.get("limitBytes", len(text)))])

    app = web.Application()
    app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    pair = plane.authority.server(plane.folder, "kubelet", ["127.0.0.1"])
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.certificate, pair.key)
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    port = runner.addresses[0][1]
    where = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    for name in nodes:
        await api.patch(f"/api/v1/nodes/{name}/status", {"status": where})
    try:
        yield asked
    finally:
        await runner.cleanup()


async def _stream(request: web.Request, log: LongLog) -> web.StreamResponse:
    """Sends what a kubelet sends of a log, in pieces of a thousand lines."""
    lines = int(request.query["tailLines"]) if "tailLines" in request.query else None
    pieces = log.pieces(lines, int(request.query.get("limitBytes", len(log))))
    response = web.StreamResponse()
    await response.prepare(request)
    while piece := "".join(islice(pieces, 1_000)):
        await response.write(piece.encode())
    return response
