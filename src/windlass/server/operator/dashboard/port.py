"""The port of the dashboard: its certificate, its door and its guard, in front of the leader's pages."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Receive, Scope, Send

from windlass.backends.kubernetes.client.connection import Connection
from windlass.server.dashboard.guard import DashboardGuard
from windlass.server.operator.bounded_http import HttpLimits, bounded_server
from windlass.server.operator.dashboard.identity_door import IdentityDoor
from windlass.server.operator.dashboard.leader_dashboard import LeaderDashboard
from windlass.server.operator.dashboard.trusted_proxy import TrustedProxy
from windlass.server.operator.queries.app import refer_to
from windlass.server.operator.queries.authentication import Authenticator
from windlass.server.operator.queries.authorization import Authorizer
from windlass.server.operator.serving_certificate import server_context

_CONNECTIONS = 1_024
LIMITS = HttpLimits(
    connections=_CONNECTIONS,
    per_peer=_CONNECTIONS // 2,
    body_bytes=64 << 10,
    streams=frozenset({"/api/stream"}),
)
"""Connections of many users may come from the address of one proxy or port-forward. A body is a token or an action."""


@dataclass(frozen=True, slots=True)
class DashboardOptions:
    """Options of the dashboard. `origins`: its addresses in browsers, where a proxy changes the Host header."""

    port: int
    origins: Sequence[str] = ()
    allows_actions: bool = False
    proxy: TrustedProxy = field(default_factory=TrustedProxy)


@dataclass(frozen=True, slots=True)
class DashboardPort:
    """A listening socket, and the certificate and key that it serves with, as PEM."""

    listener: socket.socket
    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class DashboardTerms:
    """The role of this replica. `leading`: None while it follows; `leader`: names the leader."""

    leading: Callable[[], LeaderDashboard | None]
    leader: Callable[[], str]


async def serve_dashboard(
    port: DashboardPort,
    options: DashboardOptions,
    connection: Connection,
    terms: DashboardTerms,
    now: Callable[[], int],
    report: Callable[[str], None],
) -> None:
    """Serves until cancelled. `report` is told of errors whose text users do not get. Raises BackendError."""
    tls = server_context(port.certificate, port.key)
    options.proxy.accept_certificates(tls)
    authenticator = Authenticator(connection)
    door = IdentityDoor(authenticator, options.proxy, now, report, options.origins, options.allows_actions)
    guarded = DashboardGuard(_leaders_pages(door, Authorizer(connection), terms), door)
    await bounded_server(guarded, LIMITS, tls).serve_until_cancelled(port.listener)


def _leaders_pages(door: IdentityDoor, authorizer: Authorizer, terms: DashboardTerms) -> ASGIApp:
    """The pages of the current term; the application of a term is made once."""
    made: tuple[LeaderDashboard, ASGIApp] | None = None

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal made
        current = terms.leading()
        if current is None:
            await refer_to(terms.leader())(scope, receive, send)
            return
        if made is None or made[0] is not current:
            made = (current, current.application(door, authorizer))
        await made[1](scope, receive, send)

    return answer
