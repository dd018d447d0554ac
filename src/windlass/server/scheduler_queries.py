"""What is asked of the scheduler as a whole: shares, snapshots, and what is reserved."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from windlass.controller import Controller
from windlass.server.data_source import DataSource
from windlass.server.errors import ApiError, Code

Json = dict[str, Any]


class SchedulerQueries:
    """This part of the API over one controller and its world. Methods raise ApiError, WorldError."""

    def __init__(self, controller: Controller, facts: DataSource) -> None:
        self._controller = controller
        self._facts = facts

    def shares(self) -> Json:
        """Every queue: what it should have, what it has, and who of it is next."""
        from windlass.core.queues.share_report import queue_shares  # noqa: PLC0415 - few ask
        from windlass.jobs.cluster.queues import warnings_of  # noqa: PLC0415

        snapshot = self._controller.snapshot()
        rows = queue_shares(snapshot, tuple(self._controller.plan.order))
        warnings = list(warnings_of(snapshot.queues.values()))
        return {"queues": msgspec.to_builtins(rows), "warnings": warnings, "now": self._facts.now()}

    async def snapshot(self, *, planned: bool) -> Json:
        """Everything the scheduler knows now; `planned`: what it knew when it last decided, and what it decided."""
        from windlass.jobs.cluster import snapshot_file  # noqa: PLC0415 - few ask

        decided = self._controller.decided
        if not planned:
            taken = snapshot_file.Taken(self._controller.snapshot(), self._facts.now())
        elif decided is None:
            raise ApiError(Code.WRONG_STATE, "nothing has been decided yet", "ask without --planned")
        else:
            plan = snapshot_file.decisions_of(decided.plan)
            taken = snapshot_file.Taken(decided.snapshot, decided.plan.now, plan)
        return await asyncio.to_thread(snapshot_file.dump, taken)

    def reservations(self) -> list[Json]:
        """What is reserved, soonest first; what is over is left out."""
        from windlass.server.reservation_request import reservation_line  # noqa: PLC0415 - few ask

        snapshot, now = self._controller.snapshot(), self._facts.now()
        living = sorted((kept for kept in snapshot.reservations if kept.end > now), key=lambda kept: kept.start)
        return [reservation_line(kept, snapshot, now, ours=not self._facts.is_declared(kept)) for kept in living]
