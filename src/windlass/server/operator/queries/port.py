"""The port for queries: its certificate, the front proxy's authority, and the server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from starlette.types import ASGIApp

from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.persistent_request import repeat_until_done
from windlass.backends.port import BackendError
from windlass.server.operator.bounded_http import HttpLimits, bounded_server
from windlass.server.operator.queries.authentication import Authenticator
from windlass.server.operator.queries.authorization import Authorizer
from windlass.server.operator.serving_certificate import own_certificate, publish_authority, server_context

LIMITS = HttpLimits(per_peer=HttpLimits().connections, header_bytes=64 << 10)
"""Nearly all connections come from the API server's address. A header has all groups of a user."""


@dataclass(frozen=True, slots=True)
class QueryPort:
    """Options of the port. `certificate`: PEM files of a certificate and its key; None: the operator makes its own."""

    listener: socket.socket
    namespace: str
    certificate: tuple[Path, Path] | None = None


async def serve_queries(
    port: QueryPort,
    connection: Connection,
    application: Callable[[Authenticator, Authorizer, Callable[[str], None]], ASGIApp],
    say: Callable[[str], None],
) -> None:
    """Serves until cancelled. A cluster that does not answer delays the start, and nothing else."""
    tls = server_context(*await port_certificate(port.certificate, port.namespace, connection, say))
    authenticator = Authenticator(connection)
    await authenticator.read_proxy(tls, say)  # a connection accepted before could never prove the front proxy
    server = bounded_server(application(authenticator, Authorizer(connection), say), LIMITS, tls)
    async with asyncio.TaskGroup() as group:
        group.create_task(authenticator.keep_proxy_current(tls, say))
        group.create_task(server.serve_until_cancelled(port.listener))


async def port_certificate(
    files: tuple[Path, Path] | None, namespace: str, connection: Connection, say: Callable[[str], None]
) -> tuple[bytes, bytes]:
    """The certificate and key of ports with TLS: those in the files, else the operator's own. Raises BackendError."""
    if files is not None:
        try:
            certificate, key = (file.read_bytes() for file in files)
        except OSError as error:
            raise BackendError(f"cannot read the certificate of the port for queries: {error}") from error
        return certificate, key

    async def publish_own() -> tuple[bytes, bytes]:
        own = await own_certificate(connection, namespace)
        await publish_authority(connection, own[0])
        return own

    return await repeat_until_done(publish_own, lambda error: say(f"cannot serve queries yet: {error}"))
