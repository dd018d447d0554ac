"""One replica's life: follow, lead, and follow again when the lease is lost. A world of its own for each time.

A follower watches as well: when it becomes the leader it knows the cluster already.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from windlass.backends.kubernetes.agents import hub
from windlass.backends.kubernetes.backend import KubernetesBackend
from windlass.backends.kubernetes.client.access import Access
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.persistent_request import PAUSE
from windlass.backends.kubernetes.client.resources import Resource
from windlass.backends.kubernetes.cluster.other_operators import find_rivals
from windlass.backends.kubernetes.served_kinds import served_kinds
from windlass.backends.kubernetes.settings import BackendSettings
from windlass.backends.kubernetes.status.state_writes import DeposedError
from windlass.backends.kubernetes.watches import catch_up, watch_all, watch_more
from windlass.backends.port import BackendError
from windlass.controller import Controller, run
from windlass.jobs.kubernetes.kinds.run_policy import US
from windlass.server.operator.election import Election, LeaseSettings, LostError
from windlass.server.operator.endpoints import Endpoints, listen
from windlass.server.operator.metrics import OperatorMetrics
from windlass.server.operator.operator_image import with_operator_image
from windlass.server.operator.pending_reasons import write_reasons

_DISCOVERY, _SELDOM = 5.0, 12
"""Seconds between two looks at which kinds there are; every so many looks at who else serves them."""
UNREADY = "the watches have not listed everything yet"


@dataclass(frozen=True, slots=True)
class ReplicaContext:
    """How one replica is to be run."""

    access: Access
    terms: LeaseSettings
    say: Callable[[str], None]
    faces: Endpoints
    metrics: OperatorMetrics
    world: BackendSettings = field(default_factory=BackendSettings)
    agents: tuple[str, int] | None = None
    """Where it answers agents while it leads: address and port."""


async def run_replica(rule: ReplicaContext) -> None:
    """Be a replica until cancelled. Raises AccessError, ApiError, Unreachable of a cluster that cannot be asked."""
    async with Connection(rule.access, tally=rule.metrics.tally) as unfenced:
        election = Election(unfenced, rule.terms, rule.say)
        rule.faces.leader = lambda: election.holder
        try:
            while True:
                try:
                    await _term(rule, election)
                except* (LostError, DeposedError) as reasons:
                    rule.say(f"no longer the leader: {_first(reasons)}")
        finally:
            await election.resign()


async def _term(rule: ReplicaContext, election: Election) -> None:
    """Follow until elected, then lead until deposed. Raises LostError, DeposedError."""
    fenced = Connection(rule.access, may_write=election.may_lead, tally=rule.metrics.tally)
    async with fenced as connection, asyncio.TaskGroup() as group:
        settings = await with_operator_image(rule.world, connection, rule.terms.namespace)
        world = KubernetesBackend(connection, epoch_ms, settings, rule.say)
        # 1. know the cluster
        rule.faces.unready = UNREADY
        known = asyncio.Event()
        served = await served_kinds(connection)
        await _leave_to_others(rule, world)
        watching = group.create_task(watch_all(world, served, known.set))
        discovering = group.create_task(_discover(rule, world, served))
        await known.wait()
        rule.faces.unready = ""
        # 2. become the leader
        await election.win()
        # 3. control, as long as the lease is kept
        keeping = group.create_task(election.keep())
        try:
            await _catch_up(rule, world)
            await _lead(rule, world)
        finally:
            await rule.faces.follow()
            for task in (watching, discovering, keeping):
                task.cancel()
            await world.close()


async def _leave_to_others(rule: ReplicaContext, world: KubernetesBackend) -> None:
    """Kinds that another operator serves are left to it, until it is gone."""
    rivals = [rival for rival in await find_rivals(world.connection, time.time()) if rival.serves]
    kinds = frozenset(kind for rival in rivals for kind in rival.serves)
    if kinds == world.jobs.left:
        return
    for rival in rivals:
        rule.say(f"{', '.join(rival.serves)} are left to {rival}, but for jobs with managedBy: {US}")
    world.jobs.leave(kinds)


async def _discover(rule: ReplicaContext, world: KubernetesBackend, served: Collection[Resource]) -> None:
    """Watch kinds that are defined while we are here, and look who else is."""
    known, rounds = set(served), 0
    async with asyncio.TaskGroup() as group:
        while True:
            await asyncio.sleep(_DISCOVERY)
            rounds += 1
            try:
                if rounds % _SELDOM == 0:
                    await _leave_to_others(rule, world)
                new = [kind for kind in await served_kinds(world.connection) if kind not in known]
            except BackendError:
                continue  # whoever watches says so
            known.update(new)
            if new:
                group.create_task(watch_more(world, new))


async def _catch_up(rule: ReplicaContext, world: KubernetesBackend) -> None:
    """Nothing is decided by what the last leader has changed since."""
    while True:
        try:
            await catch_up(world)
        except BackendError as error:
            rule.say(f"what the last leader has done is not known yet: {error}")
            await asyncio.sleep(PAUSE)
        else:
            return


async def _lead(rule: ReplicaContext, world: KubernetesBackend) -> None:
    tapped = rule.faces.tap(world)
    controller = Controller(tapped.recover(), world.finished, refuses=False)
    rule.faces.lead(controller, world, tapped)
    rule.say(f"leading, with {len(controller.states)} jobs and {len(controller.snapshot().table.nodes)} nodes")

    def trouble(text: str) -> None:
        rule.say(text)
        rule.faces.complain(text)

    async with asyncio.TaskGroup() as group:
        group.create_task(run(controller, tapped, on_trouble=trouble))
        group.create_task(write_reasons(controller, world))
        if rule.agents is not None:
            group.create_task(hub.serve(listen(*rule.agents), world.agents))


def _first(reasons: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first of what a group of groups holds."""
    first = reasons.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


def epoch_ms() -> int:
    """The operator's clock: milliseconds since the Unix epoch."""
    return time.time_ns() // 1_000_000
