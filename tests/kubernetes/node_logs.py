"""Kubelets that have only logs: an API server asks them for the logs of pods on fake nodes."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from aiohttp import web
from controlplane.api import Api
from controlplane.cluster import ControlPlane


@asynccontextmanager
async def logs_of_nodes(
    plane: ControlPlane, api: Api, log_of: Callable[[str], str], nodes: Sequence[str] = ("n1", "n2")
) -> AsyncIterator[list[str]]:
    """Serves the log of each pod by the pod's name until the end of the block. Yields the paths of the requests."""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        lines = log_of(request.match_info["pod"]).splitlines(keepends=True)
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
