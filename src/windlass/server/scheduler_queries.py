"""Queries of the scheduler as a whole: shares, snapshots and reservations."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from windlass.controller.controller import Controller
from windlass.server.data_source import DataSource
from windlass.server.errors import ApiError, Code

Json = dict[str, Any]


class SchedulerQueries:
    """These queries over one controller and its backend. Methods raise ApiError, BackendError."""

    def __init__(self, controller: Controller, source: DataSource) -> None:
        self._controller = controller
        self._source = source

    def shares(self) -> Json:
        """Fair share, usage and next job of every queue."""
        from windlass.core.queues.share_report import queue_shares  # noqa: PLC0415 - rarely needed
        from windlass.jobs.cluster.queues import warnings_of  # noqa: PLC0415

        snapshot = self._controller.snapshot()
        rows = queue_shares(snapshot, tuple(self._controller.plan.order))
        warnings = list(warnings_of(snapshot.queues.values()))
        return {"queues": msgspec.to_builtins(rows), "warnings": warnings, "now": self._source.now()}

    async def snapshot(self, *, planned: bool) -> Json:
        """The scheduler's input now; `planned`: the input and the decisions of the last plan."""
        from windlass.jobs.cluster import snapshot_file  # noqa: PLC0415 - rarely needed

        decided = self._controller.decision
        if not planned:
            taken = snapshot_file.SnapshotRecord(self._controller.snapshot(), self._source.now())
        elif decided is None:
            raise ApiError(Code.WRONG_STATE, "nothing has been decided yet", "ask without --planned")
        else:
            plan = snapshot_file.decisions_of(decided.plan)
            taken = snapshot_file.SnapshotRecord(decided.snapshot, decided.plan.now, plan)
        return await asyncio.to_thread(snapshot_file.dump, taken)

    def reservations(self) -> list[Json]:
        """Reservations that are not over, the soonest first."""
        from windlass.server.reservation_request import reservation_line  # noqa: PLC0415 - rarely needed

        snapshot, now = self._controller.snapshot(), self._source.now()
        living = sorted(
            (reservation for reservation in snapshot.reservations if reservation.end > now),
            key=lambda reservation: reservation.start,
        )
        return [
            reservation_line(reservation, snapshot, now, ours=not self._source.is_declared(reservation))
            for reservation in living
        ]
