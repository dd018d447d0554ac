"""Running, waiting and reserved use of nodes on one time axis: when each begins, and ends at the latest."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from windlass.controller.controller import Controller
from windlass.core.explain.start_estimate import ExpectedStart, expected_starts
from windlass.core.model.gang import PendingGang, RunningGang
from windlass.core.model.reservation import Reservation
from windlass.core.model.snapshot import Snapshot
from windlass.core.model.status import Placement
from windlass.server.dashboard.audience import EVERYTHING, Audience

Json = dict[str, Any]
MAX_ROWS = 60
_KEPT_MS = 5_000
_MAX_NODES = 8
"""Nodes that a row names."""


@dataclass(frozen=True, slots=True)
class AxisRows:
    """All rows at one time (ms), and the ids of waiting jobs whose start is not known."""

    now: int
    rows: Sequence[Json]
    unknown: Sequence[str]


class TimeAxis:
    """The rows of one controller, computed once for all pages: with many jobs that takes a second."""

    def __init__(self) -> None:
        self._kept: AxisRows | None = None

    async def rows(self, controller: Controller, now: int, audience: Audience) -> Json:
        """The rows that an audience may read, kept for `_KEPT_MS`."""
        kept = self._kept
        if kept is None or not 0 <= now - kept.now < _KEPT_MS:
            snapshot, order = controller.snapshot(), tuple(controller.plan.order)
            kept = self._kept = await asyncio.to_thread(axis_rows, snapshot, order, now)
        return shown_rows(kept, audience)


def shown_rows(found: AxisRows, audience: Audience = EVERYTHING) -> Json:
    """The rows of an audience. `left_out`: rows beyond the limit; `unknown`: jobs whose start is not known."""
    is_reservation_shown = audience.may_read("reservations")
    rows = [
        row
        for row in found.rows
        if (is_reservation_shown if row["kind"] == "reservation" else audience.sees(row["name"]))
    ]
    unknown = sum(map(audience.sees, found.unknown))
    return {"now": found.now, "rows": rows[:MAX_ROWS], "left_out": max(0, len(rows) - MAX_ROWS), "unknown": unknown}


def axis_rows(snapshot: Snapshot, order: Sequence[str], now: int) -> AxisRows:
    """Rows with `kind` running, waiting or reservation, `start` and `end` (ms; None: no limit), nodes, and a note.

    Waiting jobs have the starts that follow if every job uses its whole time limit and no other arrives. `order`: jobs
    that wait for nodes, next first.
    """
    running = sorted(snapshot.running.values(), key=lambda run: (run.ends_by is None, run.ends_by or 0, run.id))
    waiting = {gang.id: gang for each in snapshot.classes for gang in each.gangs}
    # a gang that is stopped for another one starts a second time; only waiting gangs are shown as such
    starts = [start for start in expected_starts(snapshot, now, MAX_ROWS) if start.job_id in waiting]
    rows = [_reservation_row(each) for each in snapshot.reservations if each.end > now]
    rows += [_running_row(run) for run in running]
    rows += [_waiting_row(waiting[start.job_id], start, _overtaken(start, starts, order)) for start in starts]
    known = {start.job_id for start in starts}
    return AxisRows(now, rows, [job_id for job_id in waiting if job_id not in known])


def _overtaken(start: ExpectedStart, starts: Sequence[ExpectedStart], order: Sequence[str]) -> int:
    """Number of jobs with a better position that start later or at an unknown time: the job fills a gap before them."""
    if start.job_id not in order:
        return 0
    times = {each.job_id: each.at for each in starts}
    ahead = order[: order.index(start.job_id)]
    return sum(job_id not in times or times[job_id] > start.at for job_id in ahead)


def _running_row(run: RunningGang) -> Json:
    note = "is being stopped" if run.stopping else ""
    return _row("running", run.id, run.queue, run.admitted_at, run.ends_by, run.placement, note)


def _waiting_row(gang: PendingGang, start: ExpectedStart, overtaken: int) -> Json:
    end = None if gang.walltime is None else start.at + gang.walltime
    note = f"fills a gap before {overtaken} job{'' if overtaken == 1 else 's'} ahead of it" if overtaken else ""
    return _row("waiting", gang.id, gang.queue, start.at, end, start.placement, note)


def _row(kind: str, name: str, queue: str, start: int, end: int | None, placement: Placement, note: str) -> Json:
    return {
        "kind": kind,
        "name": name,
        "queue": queue,
        "start": start,
        "end": end,
        "nodes": placement.distinct()[:_MAX_NODES],
        "node_count": len(placement.distinct()),
        "note": note,
    }


def _reservation_row(reservation: Reservation) -> Json:
    holders = ", ".join((*reservation.queues, *reservation.users))
    return {
        "kind": "reservation",
        "name": reservation.name,
        "queue": holders,
        "start": reservation.start,
        "end": reservation.end,
        "nodes": reservation.nodes[:_MAX_NODES],
        "node_count": len(reservation.nodes),
        "note": reservation.reason or (f"for {holders}" if holders else "maintenance"),
    }
