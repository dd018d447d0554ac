"""The process of `windlass operator run`: one replica, until a signal ends it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from windlass.backends.kubernetes.client.access import Access
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.settings import AgentSettings, BackendSettings
from windlass.jobs.kubernetes.operator_names import AGENTS_PORT, METRICS_PORT, NAMESPACE, OPERATOR
from windlass.server.garbage_collection import collect_rarely
from windlass.server.operator.dashboard.port import DashboardOptions, DashboardPort, DashboardTerms, serve_dashboard
from windlass.server.operator.election import LeaseSettings
from windlass.server.operator.endpoints import Endpoints, EndpointSettings, listen
from windlass.server.operator.history.store import JobHistory
from windlass.server.operator.history.writer import RetentionLimits
from windlass.server.operator.metrics import OperatorMetrics
from windlass.server.operator.queries.port import QueryPort, port_certificate, serve_queries
from windlass.server.operator.replica import ReplicaContext, epoch_ms, run_replica
from windlass.server.telemetry_export.settings import ExportSettings, read_export_settings

_QUERY_CONNECTIONS = 8
"""Maximum connections to the API server for reviews of tokens and rights."""


@dataclass(frozen=True, slots=True)
class OperatorOptions:
    """Options of a replica. `lease`: duration in seconds; `address`: where a replica outside of a pod answers."""

    access: Access
    history: str
    """URL of the database for history: sqlite:///… or postgresql://…"""
    namespace: str = NAMESPACE
    lease_name: str = OPERATOR
    lease: float = 15.0
    identity: str = ""
    address: str = ""
    host: str = "0.0.0.0"  # noqa: S104 - probes and Prometheus connect from outside of the pod
    port: int = METRICS_PORT
    """Port for probes and metrics; 0: a free port."""
    queries_port: int | None = None
    """Port for queries, with TLS; 0: a free port; None: none. With `address` the other port answers them too."""
    certificate: tuple[Path, Path] | None = None
    """PEM files of the certificate and key of that port; None: the operator makes its own."""
    dashboard: DashboardOptions | None = None
    """The dashboard, with TLS and the same certificate; None: none."""
    protect_metrics: bool = False
    """Whether metrics are only on the port for queries."""
    rank_metrics: bool = False
    """Whether the metrics have series of each rank."""
    diagnoses_at_once: int = 1
    """Failed attempts that are diagnosed at the same time; 0: none is."""
    cordon_limit: int = 0
    """Maximum number of nodes that are cordoned because diagnoses prove them bad."""
    cull_notebooks_ms: int = 0
    """Idle time after which Notebooks are stopped; 0: never."""
    agents_port: int = AGENTS_PORT
    """Port for agents in pods, if `backend.kinds.agents` names their address; 0: a free port."""
    agents_any_source: bool = False
    """Whether agents may connect from other addresses than those of their pods."""
    retention: RetentionLimits = field(default_factory=RetentionLimits)
    backend: BackendSettings = field(default_factory=BackendSettings)


async def run_operator(options: OperatorOptions, say: Callable[[str], None]) -> None:
    """Runs a replica until SIGTERM or SIGINT. Raises AccessError, ApiError, Unreachable, BackendError."""
    collect_rarely()
    say = _without_repeats(say)
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    metrics = OperatorMetrics()
    listener = listen(options.host, options.port)
    async with JobHistory(options.history, epoch_ms, say, options.retention) as history:
        endpoints = Endpoints(metrics, history, _endpoint_settings(options, _export_settings(options, say)))
        lease = _lease_settings(options, listener.getsockname()[1])
        backend, agents = _agents(options)
        context = ReplicaContext(options.access, lease, say, endpoints, metrics, backend, agents)
        working = [loop.create_task(run_replica(context)), loop.create_task(endpoints.serve(listener))]
        if options.queries_port is not None:
            working.append(loop.create_task(_serve_queries(options, endpoints, say)))
        if options.dashboard is not None:
            working.append(loop.create_task(_serve_dashboard(options, options.dashboard, endpoints, say)))
        stopping = loop.create_task(stopped.wait())
        done, _ = await asyncio.wait([*working, stopping], return_when=asyncio.FIRST_COMPLETED)
        if stopping in done:
            say("ending; another replica takes over")
        for task in (*working, stopping):
            task.cancel()
        await asyncio.gather(*working, stopping, return_exceptions=True)
        for task in done - {stopping}:
            task.result()  # raises the error that ended the task


def _export_settings(options: OperatorOptions, say: Callable[[str], None]) -> ExportSettings:
    """Exports that the environment asks for; ranks also by the option for the metrics."""
    found = read_export_settings(os.environ)
    for fault in found.faults:
        say(fault)
    return replace(found, ranks=found.ranks or options.rank_metrics)


def _endpoint_settings(options: OperatorOptions, exports: ExportSettings) -> EndpointSettings:
    return EndpointSettings(
        open_queries=bool(options.address),
        protect_metrics=options.protect_metrics,
        rank_metrics=options.rank_metrics,
        diagnoses_at_once=options.diagnoses_at_once,
        cordon_limit=options.cordon_limit,
        cull_notebooks_ms=options.cull_notebooks_ms,
        exports=exports,
    )


async def _serve_queries(options: OperatorOptions, endpoints: Endpoints, say: Callable[[str], None]) -> None:
    """Answers queries over a connection of its own: users cannot use up those of the controller."""
    port = QueryPort(
        listen(options.host, options.queries_port or 0, "--queries-port"), options.namespace, options.certificate
    )
    async with Connection(options.access, limit=_QUERY_CONNECTIONS) as connection:
        await serve_queries(port, connection, endpoints.queries, say)


async def _serve_dashboard(
    options: OperatorOptions, dashboard: DashboardOptions, endpoints: Endpoints, say: Callable[[str], None]
) -> None:
    """Answers browsers over a connection of its own to the API server."""
    listener = listen(options.host, dashboard.port, "--dashboard-port")
    async with Connection(options.access, limit=_QUERY_CONNECTIONS) as connection:
        pair = await port_certificate(options.certificate, options.namespace, connection, say)
        port = DashboardPort(listener, *pair)
        terms = DashboardTerms(lambda: endpoints.dashboard, endpoints.find_leader)
        await serve_dashboard(port, dashboard, connection, terms, epoch_ms, say)


def _without_repeats(say: Callable[[str], None]) -> Callable[[str], None]:
    """A function that drops a text equal to the last one."""
    last = ""

    def say_new(text: str) -> None:
        nonlocal last
        if text != last:
            last = text
            say(text)

    return say_new


def _lease_settings(options: OperatorOptions, port: int) -> LeaseSettings:
    identity = options.identity or f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}"
    address = options.address.replace(":0", f":{port}") if options.address.endswith(":0") else options.address
    return LeaseSettings(options.namespace, options.lease_name, identity, options.lease, address)


def _agents(options: OperatorOptions) -> tuple[BackendSettings, tuple[str, int] | None]:
    """Backend settings with the address for agents, and the address and port to listen on."""
    kinds = options.backend.kinds
    if not kinds.agent_endpoint:
        return options.backend, None
    port = options.agents_port or _free_port(options.host)
    host, _, named = kinds.agent_endpoint.rpartition(":")
    kinds = replace(kinds, agent_endpoint=f"{host}:{port}" if named == "0" else kinds.agent_endpoint)
    agents = AgentSettings(any_source=options.agents_any_source)
    return replace(options.backend, kinds=kinds, agents=agents), (options.host, port)


def _free_port(host: str) -> int:
    with listen(host, 0) as listener:
        return int(listener.getsockname()[1])
