"""What is asked of the scheduler as a whole: shares, snapshots, and what is reserved."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from windlass.controller import Controller
from windlass.server.durable import check_open, durable
from windlass.server.errors import ApiError, Code
from windlass.server.feed import Feed
from windlass.worlds.local.world import LocalWorld

Json = dict[str, Any]


class Planning:
    """This part of the API over one controller and its world. Methods raise ApiError, WorldError."""

    def __init__(self, controller: Controller, world: LocalWorld, feed: Feed) -> None:
        self._controller = controller
        self._world = world
        self._feed = feed

    def shares(self) -> Json:
        """Every queue: what it should have, what it has, and who of it is next."""
        from windlass.core.shares import queue_shares  # noqa: PLC0415 - few ask
        from windlass.jobs.queues import warnings_of  # noqa: PLC0415

        snapshot = self._controller.snapshot()
        rows = queue_shares(snapshot, tuple(self._controller.plan.order))
        warnings = list(warnings_of(snapshot.queues.values()))
        return {"queues": msgspec.to_builtins(rows), "warnings": warnings, "now": self._world.now()}

    async def snapshot(self, *, planned: bool) -> Json:
        """Everything the scheduler knows now; `planned`: what it knew when it last decided, and what it decided."""
        from windlass.jobs import snapshot_file  # noqa: PLC0415 - few ask

        decided = self._controller.decided
        if not planned:
            taken = snapshot_file.Taken(self._controller.snapshot(), self._world.now())
        elif decided is None:
            raise ApiError(Code.WRONG_STATE, "nothing has been decided yet", "ask without --planned")
        else:
            plan = snapshot_file.decisions_of(decided.plan)
            taken = snapshot_file.Taken(decided.snapshot, decided.plan.now, plan)
        return await asyncio.to_thread(snapshot_file.dump, taken)

    def reservations(self) -> list[Json]:
        """What is reserved, soonest first; what is over is left out."""
        from windlass.server.reserving import line  # noqa: PLC0415 - few ask

        snapshot, now = self._controller.snapshot(), self._world.now()
        ours = {kept.name for kept in self._world.reservations}
        living = sorted((kept for kept in snapshot.reservations if kept.end > now), key=lambda kept: kept.start)
        return [line(kept, snapshot, now, ours=kept.name in ours) for kept in living]

    async def reserve(self, body: object) -> Json:
        """Keep nodes for somebody, or for nobody, for a time. Returns the reservation's line."""
        from windlass.server import reserving  # noqa: PLC0415 - few ask

        check_open(self._feed)
        snapshot, now = self._controller.snapshot(), self._world.now()
        kept = reserving.reservation(reserving.read(body), snapshot, now)
        living = tuple(other for other in self._world.reservations if other.end > now)
        await durable(self._feed, [self._world.set_reservations((*living, kept))])
        return reserving.line(kept, self._controller.snapshot(), now, ours=True)

    async def unreserve(self, name: str) -> Json:
        """Give the nodes of a reservation back."""
        check_open(self._feed)
        left = tuple(other for other in self._world.reservations if other.name != name)
        if len(left) == len(self._world.reservations):
            by_file = any(other.name == name for other in self._world.cluster.reservations)
            fix = "it is in the cluster file; take it out there" if by_file else "windlass reserve lists what there is"
            raise ApiError(Code.NO_SUCH_JOB, f"no reservation {name[:60]!r} was made with windlass reserve", fix)
        await durable(self._feed, [self._world.set_reservations(left)])
        return {"name": name}
