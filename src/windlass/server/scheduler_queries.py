"""Queries of the scheduler as a whole: shares, snapshots and reservations."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from windlass.controller.controller import Controller
from windlass.core.model.status import state_name
from windlass.server.data_source import DataSource
from windlass.server.errors import ApiError, ErrorCode
from windlass.server.job_filter import is_in_namespace
from windlass.server.job_lookup import JobLookup, is_pending, listing_order

Json = dict[str, Any]

_MAX_LISTED = 1_000


class SchedulerQueries:
    """These queries over one controller and its backend. Methods raise ApiError, BackendError."""

    def __init__(self, controller: Controller, source: DataSource, jobs: JobLookup) -> None:
        self._controller, self._source, self._jobs = controller, source, jobs

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
            raise ApiError(ErrorCode.WRONG_STATE, "nothing has been decided yet", "ask without --planned")
        else:
            plan = snapshot_file.decisions_of(decided.plan)
            taken = snapshot_file.SnapshotRecord(decided.snapshot, decided.plan.now, plan)
        return await asyncio.to_thread(snapshot_file.to_plain, taken)

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

    async def explain(self, name: str, what_if: str = "") -> Json:
        """The full explanation of a pending job; of any other job only its line.

        `what_if`: explain the job with other options. Far down a long queue this takes seconds, so a thread computes it
        on a snapshot, which does not change.
        """
        states = await self._jobs.states(name)
        state = next((state for state in states if is_pending(state)), states[0])
        line = self._jobs.line(state, self._jobs.positions())
        answer: Json = {"job": line, "now": self._source.now()}
        if (missing := self._controller.plan.missing.get(state.id)) is not None:
            answer["missing"] = {"reason": missing.reason.value, "message": missing.message}
        if (wait := self._source.member_wait(state.id)) is not None:
            answer["members"] = {"reason": wait[0], "message": wait[1]}
        if restarts := state.status.container_restarts:
            answer["container_restarts"] = restarts
        if what_if and not is_pending(state):
            raise ApiError(ErrorCode.WRONG_STATE, f"{state.id} is not pending but {state_name(state.status)}")
        if is_pending(state):
            from windlass.server import pending_explanation  # noqa: PLC0415 - a `run` of 200 ms is never asked why

            snapshot, now = self._controller.snapshot(), self._source.now()
            job = pending_explanation.change_job(state, what_if, snapshot) if what_if else None
            own_only = self._source.without_others()
            answer |= await asyncio.to_thread(pending_explanation.explain_pending, snapshot, state, job, now, own_only)
            answer["explanation"] = pending_explanation.use_listed_start(
                answer["explanation"], None if what_if else line
            )
        return answer

    async def prospect(self, name: str) -> Json:
        """Reason why a pending job can never run on the cluster as it is; empty if it can."""
        from windlass.server import pending_explanation  # noqa: PLC0415 - see above

        states = await self._jobs.states(name)
        state = next((state for state in states if is_pending(state)), states[0])
        if not is_pending(state):
            return {"id": state.id, "never": ""}
        snapshot, own_only = self._controller.snapshot(), self._source.without_others()
        reason = await asyncio.to_thread(lambda: pending_explanation.find_impossibility(own_only(snapshot), state.job))
        return {"id": state.id, "never": reason}

    async def explain_all(self, namespace: str = "") -> Json:
        """All pending jobs in queue order with their reasons; the first few with changes that would start them now.

        `namespace`: only jobs of this namespace of a cluster.
        """
        from windlass.server import pending_explanation  # noqa: PLC0415 - see above

        positions = self._jobs.positions()
        states = [*filter(is_pending, self._controller.states.values()), *self._source.held_jobs()]
        states = [state for state in states if is_in_namespace(state.id, namespace)]
        states.sort(key=lambda state: listing_order(state, positions))
        lines = [self._jobs.line(state, positions) for state in states[:_MAX_LISTED]]
        snapshot, now = self._controller.snapshot(), self._source.now()
        return {"jobs": await asyncio.to_thread(pending_explanation.add_alternatives, snapshot, lines, now), "now": now}
