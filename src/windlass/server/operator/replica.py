"""Leadership terms of one replica: it follows, leads, and follows again when it loses the lease.

Each term has a backend of its own. A follower watches the cluster too, so that it knows the cluster when it is elected.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
import traceback
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

from windlass.backends.kubernetes.agents import agent_server
from windlass.backends.kubernetes.backend import KubernetesBackend
from windlass.backends.kubernetes.client.access import Access, AccessError
from windlass.backends.kubernetes.client.connection import Connection, find_object
from windlass.backends.kubernetes.client.persistent_request import repeat_until_done
from windlass.backends.kubernetes.client.resources import PODS, ROLES, Resource
from windlass.backends.kubernetes.client.reviews import AccessRight, has_own_right
from windlass.backends.kubernetes.cluster.admission_guard import AdmissionGuard, read_guard
from windlass.backends.kubernetes.cluster.other_operators import RivalSearch
from windlass.backends.kubernetes.served_kinds import served_kinds
from windlass.backends.kubernetes.settings import BackendSettings
from windlass.backends.kubernetes.watches import catch_up, watch_all, watch_more
from windlass.backends.port import BackendError
from windlass.controller.controller import Controller, run
from windlass.jobs.kubernetes.job_admission import POLICY
from windlass.jobs.kubernetes.operator_names import CONTAINER
from windlass.jobs.kubernetes.settings import AGENT_IMAGE
from windlass.server.operator.election import Election, LeaseSettings, LostError
from windlass.server.operator.endpoints import UNREADY, Endpoints, listen
from windlass.server.operator.leader_label import mark_leader
from windlass.server.operator.lease_renewal import keep_in_thread
from windlass.server.operator.metrics import OperatorMetrics
from windlass.server.operator.pending_reasons import write_reasons
from windlass.server.operator.rival_kinds import RivalKinds
from windlass.server.operator.serving_certificate import own_certificate, server_context
from windlass.wire import exponential_backoff

_DISCOVERY_INTERVAL_S = 5.0
"""Time between two requests for the kinds that the API server serves, and for the guard of admission."""
_BACKOFF_MS, _MAX_BACKOFF_MS = 1_000, 60_000
"""Milliseconds before a replica follows again after an unforeseen error; doubled each time up to the longest."""
_LONG_TERM_S = 600.0
"""Seconds after which the errors of earlier terms no longer lengthen the wait."""
_SHOWN_PLACES = 4


@dataclass(frozen=True, slots=True)
class ReplicaContext:
    """Settings and outputs of one replica."""

    access: Access
    lease: LeaseSettings
    say: Callable[[str], None]
    endpoints: Endpoints
    metrics: OperatorMetrics
    settings: BackendSettings = field(default_factory=BackendSettings)
    agents: tuple[str, int] | None = None
    """Address and port for agents in pods; a replica listens there while it leads."""


async def run_replica(context: ReplicaContext) -> None:
    """Runs leadership terms until cancelled.

    Raises AccessError, ApiError, Unreachable if the cluster cannot be used at the start. An error later, whatever it
    is, ends the term and not the process: the replica releases the Lease and follows again after a growing wait.
    """
    async with Connection(context.access, counters=context.metrics.tally) as unfenced:
        election = Election(unfenced, context.lease, context.say)
        context.endpoints.leader = lambda: election.holder
        failures = 0
        try:
            while True:
                await mark_leader(unfenced, context.lease.namespace, context.say, leads=False)
                began = time.monotonic()
                if not await _in_own_task(_run_whole_term(context, election, unfenced)):
                    failures = 0
                    continue
                failures = 0 if time.monotonic() - began > _LONG_TERM_S else failures
                wait = exponential_backoff(failures, _BACKOFF_MS, _MAX_BACKOFF_MS) / 1000
                failures += 1
                context.say(f"follows again in {wait:.0f} s")
                await election.resign()
                await asyncio.sleep(wait)
        finally:
            await election.resign()
            await mark_leader(unfenced, context.lease.namespace, context.say, leads=False)


async def _in_own_task(term: Coroutine[Any, Any, bool]) -> bool:
    """Runs a term as a task, so that a cancellation of the replica ends the replica however the term ends.

    A task group whose tasks fail while it is cancelled raises their errors, and the cancellation is lost.
    """
    task = asyncio.create_task(term)
    try:
        await asyncio.wait([task])
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return task.result()


async def _run_whole_term(context: ReplicaContext, election: Election, unfenced: Connection) -> bool:
    """Runs one term. Returns whether it ended by an error other than the loss of the Lease.

    Raises AccessError, ApiError, Unreachable before this replica has ever read the Lease.
    """
    unforeseen = False
    try:
        await _run_term(context, election, unfenced)
    except* LostError as reasons:
        context.say(f"no longer the leader: {_first(reasons)}")
    except* Exception as reasons:
        error = _first(reasons)
        if not election.holder and isinstance(error, AccessError | BackendError):
            raise
        unforeseen = True
        context.metrics.unforeseen_ends += 1
        text = f"{type(error).__name__}: {error}, at {_place_of(error)}"
        context.say(f"no longer the leader, after an error that nothing foresees: {text}")
    return unforeseen


def _place_of(error: BaseException) -> str:
    """The innermost places of an error in the code, for a report of the fault."""
    places = traceback.extract_tb(error.__traceback__)[-_SHOWN_PLACES:]
    return "; ".join(f"{place.filename.rpartition('/')[2]}:{place.lineno} {place.name}" for place in places)


async def _run_term(context: ReplicaContext, election: Election, unfenced: Connection) -> None:
    """One leadership term: follow until elected, then lead until the lease is lost. Raises LostError.

    `unfenced`: a connection that may write before this replica leads.
    """
    tls = None
    fenced = Connection(context.access, may_write=election.may_lead, counters=context.metrics.tally)
    async with fenced as connection, asyncio.TaskGroup() as group:
        settings = await with_operator_image(context.settings, connection, context.lease.namespace)
        settings = replace(settings, runs_mpijobs_v1=await may_run_mpijobs_v1(unfenced))
        if context.agents is not None:
            settings, tls = await _agent_identity(settings, unfenced, context.lease.namespace)
        backend = KubernetesBackend(connection, epoch_ms, settings, context.say)
        backend.faults.counts = context.metrics.object_faults
        # 1. list and watch the cluster
        context.endpoints.unready = UNREADY
        known = asyncio.Event()
        served = await served_kinds(connection)
        await _read_guard(context, backend, unfenced)
        rivals = _rival_kinds(context, backend, unfenced)
        await rivals.check()
        watching = group.create_task(watch_all(backend, served, known.set))
        discovering = group.create_task(_discover(context, backend, served, unfenced))
        searching = group.create_task(rivals.keep_checking())
        await known.wait()
        context.endpoints.unready = ""
        # 2. win the election
        await election.win()
        # 3. control the cluster while the lease is renewed
        keeping = group.create_task(keep_in_thread(election, lambda: Connection(context.access)))
        try:
            await _catch_up(context, backend)
            await mark_leader(connection, context.lease.namespace, context.say, leads=True)
            await _lead(context, backend, tls)
        finally:
            await context.endpoints.follow()
            for task in (watching, discovering, searching, keeping):
                task.cancel()
            await backend.close()


async def _read_guard(context: ReplicaContext, backend: KubernetesBackend, unfenced: Connection) -> None:
    """Finds out whether admission guards the users of jobs. Raises BackendError."""
    guard = await read_guard(unfenced)
    if backend.monitor.lookups.see_guard(guard):
        context.say(_describe_guard(guard))


def _describe_guard(guard: AdmissionGuard) -> str:
    if guard.since is not None:
        return f"users of jobs are those that the ValidatingAdmissionPolicy {POLICY} has checked"
    policy = f"the ValidatingAdmissionPolicy {POLICY} {guard.fault}"
    return f"users of jobs are not known, and all of a namespace count as one: {policy}"


def _rival_kinds(context: ReplicaContext, backend: KubernetesBackend, unfenced: Connection) -> RivalKinds:
    """Makes the search for other operators. `unfenced`: a follower searches too, and an access review is a POST."""
    reader, counts = backend.job_reader, context.metrics.object_faults
    return RivalKinds(RivalSearch(unfenced).run, reader, context.settings.left_kinds, context.say, counts)


async def _discover(
    context: ReplicaContext, backend: KubernetesBackend, served: Collection[Resource], unfenced: Connection
) -> None:
    """Watches kinds that are defined later, and reads the guard of admission again and again."""
    known = set(served)
    async with asyncio.TaskGroup() as group:
        while True:
            await asyncio.sleep(_DISCOVERY_INTERVAL_S)
            try:
                await _read_guard(context, backend, unfenced)
                new = [kind for kind in await served_kinds(backend.connection) if kind not in known]
            except BackendError:
                continue  # the watches report it
            known.update(new)
            if new:
                group.create_task(watch_more(backend, new))


async def _catch_up(context: ReplicaContext, backend: KubernetesBackend) -> None:
    """Waits until the watches have caught up with the writes of the last leader."""
    await repeat_until_done(
        lambda: catch_up(backend),
        lambda error: context.say(f"cannot yet read what the last leader has written: {error}"),
    )


async def _lead(context: ReplicaContext, backend: KubernetesBackend, tls: ssl.SSLContext | None) -> None:
    """Leads until cancelled. `tls`: context of the port for agents."""
    recovery = backend.recover()
    controller = Controller(recovery, backend.finished, refuses=False, report_fault=backend.report_job_fault)
    observers = context.endpoints.lead(controller, backend, recovery.states)
    context.say(f"leading, with {len(controller.states)} jobs and {len(controller.snapshot().table.nodes)} nodes")

    def trouble(text: str) -> None:
        context.say(text)
        context.endpoints.complain(text)

    async with asyncio.TaskGroup() as group:
        group.create_task(run(controller, backend, observers, on_trouble=trouble))
        group.create_task(write_reasons(controller, backend))
        group.create_task(backend.schedules.run())
        if context.agents is not None and tls is not None:
            group.create_task(agent_server.serve(listen(*context.agents), backend.agents, tls))


def _first(reasons: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error of nested exception groups."""
    first = reasons.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


def epoch_ms() -> int:
    """Milliseconds since the Unix epoch: the clock of the operator."""
    return time.time_ns() // 1_000_000


async def _agent_identity(
    settings: BackendSettings, connection: Connection, namespace: str
) -> tuple[BackendSettings, ssl.SSLContext]:
    """Settings by which pods know the operator, and the TLS context of the port for agents. Raises BackendError."""
    certificate, key = await own_certificate(connection, namespace)
    kinds = replace(settings.kinds, agent_authority=certificate.decode())
    agents = replace(settings.agents, secret_key=key)
    return replace(settings, kinds=kinds, agents=agents), server_context(certificate, key)


async def with_operator_image(settings: BackendSettings, connection: Connection, namespace: str) -> BackendSettings:
    """Settings with the image of this process' own pod, if the settings name no image for the agent.

    Outside of a pod it is the released image. Raises BackendError if the cluster does not answer.
    """
    if settings.kinds.agent_image:
        return settings
    image = await _own_image(connection, namespace) or AGENT_IMAGE
    return replace(settings, kinds=replace(settings.kinds, agent_image=image))


async def may_run_mpijobs_v1(connection: Connection) -> bool:
    """Whether this account may create the roles that launchers of MPIJobs v1 need. Raises BackendError."""
    return await has_own_right(connection, AccessRight("create", ROLES.plural, group=ROLES.group))


async def _own_image(connection: Connection, namespace: str) -> str:
    pod = await find_object(connection, PODS, namespace, socket.gethostname())
    if pod is None:  # this process runs outside of a pod
        return ""
    return next((str(each["image"]) for each in pod["spec"]["containers"] if each["name"] == CONTAINER), "")
