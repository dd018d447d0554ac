"""Running, waiting and reserved use of nodes on one time axis: when each begins, and ends at the latest. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.core.explain.start_estimate import ExpectedStart, expected_starts
from windlass.core.model.gang import PendingGang, RunningGang
from windlass.core.model.reservation import Reservation
from windlass.core.model.snapshot import Snapshot
from windlass.core.model.status import Placement

Json = dict[str, Any]
MAX_ROWS = 60
_MAX_NODES = 8
"""Nodes that a row names."""


def time_axis(snapshot: Snapshot, order: Sequence[str], now: int) -> Json:
    """Rows with `kind` running, waiting or reservation, `start` and `end` (ms; None: no limit), nodes, and a note.

    Waiting jobs have the starts that follow if every job uses its whole time limit and no other arrives. `order`: jobs
    that wait for nodes, next first. `left_out`: rows beyond the limit.
    """
    running = sorted(snapshot.running.values(), key=lambda run: (run.ends_by is None, run.ends_by or 0, run.id))
    waiting = {gang.id: gang for each in snapshot.classes for gang in each.gangs}
    # a gang that is stopped for another one starts a second time; only waiting gangs are shown as such
    starts = [start for start in expected_starts(snapshot, now, MAX_ROWS) if start.job_id in waiting]
    rows = [_reservation_row(each) for each in snapshot.reservations if each.end > now]
    rows += [_running_row(run) for run in running]
    rows += [_waiting_row(waiting[start.job_id], start, _overtaken(start, starts, order)) for start in starts]
    unknown = len(waiting) - len(starts)
    return {"now": now, "rows": rows[:MAX_ROWS], "left_out": max(0, len(rows) - MAX_ROWS), "unknown": unknown}


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
