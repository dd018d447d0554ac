"""One replica's life: follow, lead, and follow again when the lease is lost. A world of its own for each time.

A follower watches as well: when it becomes the leader it knows the cluster already.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from windlass.controller import Controller, run
from windlass.server.feed import Feed, Watched
from windlass.server.operator.election import Election, LostError, Terms
from windlass.worlds.kubernetes.client.access import Access
from windlass.worlds.kubernetes.client.connection import Connection
from windlass.worlds.kubernetes.commits import DeposedError
from windlass.worlds.kubernetes.served import served_kinds
from windlass.worlds.kubernetes.settings import WorldSettings
from windlass.worlds.kubernetes.watching import watch_all
from windlass.worlds.kubernetes.world import KubernetesWorld

Lead = Callable[[Controller, KubernetesWorld, Feed], Awaitable[None]]
"""What besides controlling is done by a leader, until cancelled."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How one replica is to be run."""

    access: Access
    terms: Terms
    say: Callable[[str], None]
    world: WorldSettings = field(default_factory=WorldSettings)


async def reign(rule: Rule, lead: Lead, standing: Callable[[str], None] = lambda _: None) -> None:
    """Be a replica until cancelled. `standing` hears "starting", "following" and "leading"."""
    async with Connection(rule.access) as unfenced:
        election = Election(unfenced, rule.terms, rule.say)
        try:
            while True:
                try:
                    await _term(rule, election, lead, standing)
                except* (LostError, DeposedError) as reasons:
                    rule.say(f"no longer the leader: {_first(reasons)}")
        finally:
            await election.resign()


async def _term(rule: Rule, election: Election, lead: Lead, standing: Callable[[str], None]) -> None:
    """Follow until elected, then lead until deposed. Raises LostError, DeposedError."""
    standing("starting")
    async with Connection(rule.access, may_write=election.may_lead) as connection, asyncio.TaskGroup() as group:
        world = KubernetesWorld(connection, _now, rule.world, rule.say)
        # 1. know the cluster
        known = asyncio.Event()
        watching = group.create_task(watch_all(world, await served_kinds(connection), known.set))
        await known.wait()
        # 2. become the leader
        standing("following")
        await election.win()
        # 3. control, as long as the lease is kept
        keeping = group.create_task(election.keep())
        try:
            await _lead(rule, world, lead, standing)
        finally:
            for task in (watching, keeping):
                task.cancel()
            await world.close()


async def _lead(rule: Rule, world: KubernetesWorld, lead: Lead, standing: Callable[[str], None]) -> None:
    feed = Feed()
    controller = Controller(world.recover(), world.finished)
    rule.say(f"leading, with {len(controller.states)} jobs and {len(controller.snapshot().table.nodes)} nodes")
    standing("leading")

    def trouble(text: str) -> None:
        rule.say(text)
        feed.complain(text)

    async with asyncio.TaskGroup() as group:
        group.create_task(run(controller, Watched(world, feed), on_trouble=trouble))
        group.create_task(_faces(lead, controller, world, feed))


async def _faces(lead: Lead, controller: Controller, world: KubernetesWorld, feed: Feed) -> None:
    try:
        await lead(controller, world, feed)
    finally:
        feed.close()


def _first(reasons: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first of what a group of groups holds."""
    first = reasons.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


def _now() -> int:
    return time.time_ns() // 1_000_000
