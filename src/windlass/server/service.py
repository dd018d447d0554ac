"""Queries of the API, for HTTP and for calls from the same process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

import msgspec

import windlass
from windlass.backends.event_timeout import wait_for_event
from windlass.controller.controller import Controller
from windlass.core.model.queue import Queue
from windlass.core.model.status import HOLDING, TERMINAL, JobState, Phase, state_name
from windlass.server import views
from windlass.server.data_source import DataSource
from windlass.server.errors import ApiError, Code
from windlass.server.feed import Feed
from windlass.server.job_filter import parse_filter
from windlass.server.progress import summarize_progress
from windlass.server.scheduler_queries import SchedulerQueries
from windlass.server.views import Json, PendingStatus

Filters: TypeAlias = Mapping[str, str]
_DEFAULT_LIMIT = 1_000
_MAX_DIGITS = 18
"""Of a number in a request: the database takes 64 bits."""
_HEARTBEAT_S = 15.0
"""Time without events after which a follower gets a comment that keeps the connection alive."""


class Service:
    """The read side of the API, over one controller and its backend. Methods raise ApiError, BackendError.

    `kind`: "up" for a daemon, "run" for the controller of a foreground job, "operator" for that of a cluster.
    """

    def __init__(self, controller: Controller, source: DataSource, feed: Feed, kind: str) -> None:
        self._controller = controller
        self._source = source
        self._feed = feed
        self.kind = kind
        self._began = source.now()
        self.scheduler = SchedulerQueries(controller, source)

    # --- queries ------------------------------------------------------------------------------------

    def ping(self) -> Json:
        """Version, process and cluster of the controller, with counts of jobs."""
        nodes = self._controller.snapshot().table.nodes
        phases = [state.status.phase for state in self._controller.states.values()]
        return {
            "version": windlass.__version__,
            "pid": os.getpid(),
            "kind": self.kind,
            "state": self._source.location(),
            "since": self._began,
            "now": self._source.now(),
            "cluster": self._source.cluster(),
            "nodes": len(nodes),
            "capacity": views.total_capacity(nodes),
            "waiting": phases.count(Phase.QUEUED),
            "holding": sum(phase in HOLDING for phase in phases),
            "trouble": self._feed.trouble or self._source.trouble(),
        }

    async def jobs(self, filters: Filters) -> list[Json]:
        """Jobs as lines: holders of nodes, then pending jobs in queue order, then others, then ended jobs.

        Filters: those of `job_filter`, `limit`, and `progress`, which adds the training progress of holders of nodes.
        Ended jobs are listed only if the filter selects them, the latest first.
        """
        job_filter, limit = parse_filter(filters), _number(filters, "limit", _DEFAULT_LIMIT)
        positions = self._positions()
        chosen = [
            state for state in (*self._controller.states.values(), *self._source.held_jobs()) if job_filter.has(state)
        ]
        chosen.sort(key=lambda state: _listing_order(state, positions))
        if job_filter.ended and len(chosen) < limit:
            known = {state.id for state in chosen}
            ended = await self._source.ended(job_filter, limit)
            chosen += [state for state in ended if state.id not in known]
        chosen = chosen[:limit]
        lines = [views.job_line(state, self._waiting(state, positions)) for state in chosen]
        if not filters.get("progress"):
            return lines
        return [{**line, "progress": await self._progress(state)} for line, state in zip(lines, chosen, strict=True)]

    async def _progress(self, state: JobState) -> Json | None:
        if state.status.phase not in HOLDING:
            return None
        return summarize_progress(self._source.ranks_seen(state, await self._source.tasks(state.id)))

    async def job(self, name: str) -> Json:
        """All details of a job, or the lines of an array's members."""
        states = await self._states(name)
        positions = self._positions()
        if len(states) > 1:
            return {"id": name, "members": [views.job_line(state, self._waiting(state, positions)) for state in states]}
        state = states[0]
        tasks, transitions = await self._source.tasks(state.id), await self._source.transitions(state.id)
        resources = self._source.rank_resources(state.job, tasks)
        state = replace(state, job=self._source.redact(state.job))
        seen = summarize_progress(self._source.ranks_seen(state, tasks))
        return {
            **views.job_details(state, self._waiting(state, positions), tasks, transitions, resources),
            "progress": seen,
        }

    async def explain(self, name: str, what_if: str = "") -> Json:
        """The full explanation of a pending job; of any other job only its line.

        `what_if`: explain the job with other options. Far down a long queue this takes seconds, so a thread computes it
        on a snapshot, which does not change.
        """
        states = await self._states(name)
        state = next((state for state in states if _is_pending(state)), states[0])
        line = views.job_line(state, self._waiting(state, self._positions()))
        answer: Json = {"job": line, "now": self._source.now()}
        if what_if and not _is_pending(state):
            raise ApiError(Code.WRONG_STATE, f"{state.id} is not pending but {state_name(state.status)}")
        if _is_pending(state):
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

        states = await self._states(name)
        state = next((state for state in states if _is_pending(state)), states[0])
        if not _is_pending(state):
            return {"id": state.id, "never": ""}
        snapshot, own_only = self._controller.snapshot(), self._source.without_others()
        reason = await asyncio.to_thread(lambda: pending_explanation.find_impossibility(own_only(snapshot), state.job))
        return {"id": state.id, "never": reason}

    async def explain_all(self) -> Json:
        """All pending jobs in queue order with their reasons; the first few with changes that would start them now."""
        from windlass.server import pending_explanation  # noqa: PLC0415 - see above

        positions = self._positions()
        states = [*filter(_is_pending, self._controller.states.values()), *self._source.held_jobs()]
        states.sort(key=lambda state: _listing_order(state, positions))
        lines = [views.job_line(state, self._waiting(state, positions)) for state in states[:_DEFAULT_LIMIT]]
        snapshot, now = self._controller.snapshot(), self._source.now()
        return {"jobs": await asyncio.to_thread(pending_explanation.add_alternatives, snapshot, lines, now), "now": now}

    def nodes(self) -> list[Json]:
        """All nodes."""
        snapshot, now = self._controller.snapshot(), self._source.now()
        running, reserved = snapshot.running.values(), snapshot.reservations
        return [views.node_line(node, running, reserved, now) for node in snapshot.table.nodes]

    def queues(self) -> list[Json]:
        """All queues that are declared or used."""
        snapshot = self._controller.snapshot()
        states = list(self._controller.states.values())
        named = {state.job.queue: Queue(state.job.queue) for state in states} | dict(snapshot.queues)
        return [views.queue_line(queue, snapshot.held.get(name, {}), states) for name, queue in sorted(named.items())]

    async def history(self, filters: Filters) -> list[Json]:
        """Ended jobs, the last first. Filters: name, user, since (ms), limit."""
        states = await self._source.history(
            name=filters.get("name", ""),
            user=filters.get("user", ""),
            since=_number(filters, "since", 0),
            limit=_number(filters, "limit", _DEFAULT_LIMIT),
        )
        return [views.job_line(state) for state in states]

    async def ids(self, name: str) -> list[str]:
        """Ids of the jobs that a name or id means: one, or an array's members."""
        return await self._source.ids(name)

    async def state(self, job_id: str) -> JobState:
        """The current, committed state of a job."""
        await self._source.wait_for_commit()
        state = self._controller.states.get(job_id) or await self._source.job(job_id)
        if state is None:
            raise ApiError(Code.NO_SUCH_JOB, f"{job_id} is no longer recorded")
        return state

    # --- events ---------------------------------------------------------------------------------

    async def follow(self, names: str, after: int) -> AsyncIterator[Json]:
        """Events of jobs and arrays after number `after`, until all have ended. `names`: by commas; empty for all."""
        ids = {job_id for name in names.split(",") if name for job_id in await self.ids(name)}
        return self._follow(ids, after)

    async def _follow(self, ids: set[str], after: int) -> AsyncIterator[Json]:
        news = self._feed.join()
        sent: dict[str, tuple[object, int]] = {}
        ended: set[str] = set()
        try:
            while not self._feed.closed:
                news.clear()
                ends = [state for job_id in sorted(ids - ended) if _has_ended(state := await self.state(job_id))]
                for number, transition in await self._source.events(after, ids):
                    after = number
                    yield {"type": "transition", "number": number, **msgspec.to_builtins(transition)}
                for event in self._changed_verdicts(ids, sent):
                    yield event
                for state in ends:
                    ended.add(state.id)
                    yield {"type": "end", "job": views.job_line(state)}
                if ids and ended == ids:
                    yield {"type": "all ended"}
                    return
                if not await wait_for_event(news, _HEARTBEAT_S):
                    yield {"type": "quiet"}
        finally:
            self._feed.leave(news)

    def _changed_verdicts(self, ids: set[str], sent: dict[str, tuple[object, int]]) -> Iterable[Json]:
        """Changed reasons of pending jobs."""
        waiting = [job_id for job_id in ids if (s := self._controller.states.get(job_id)) and _is_pending(s)]
        positions = self._positions() if waiting else {}
        for job_id in waiting:
            state = self._controller.states[job_id]
            line = views.job_line(state, self._waiting(state, positions))
            news = (line["message"], line["position"])
            if sent.get(job_id) != news:
                sent[job_id] = news
                yield {"type": "verdict", "job": line}

    # --- lookups ----------------------------------------------------------------------------------

    async def _states(self, name: str) -> list[JobState]:
        return [await self.state(job_id) for job_id in await self.ids(name)]

    def _positions(self) -> dict[str, int]:
        return {job_id: place for place, job_id in enumerate(self._controller.plan.order, start=1)}

    def _waiting(self, state: JobState, positions: Mapping[str, int]) -> PendingStatus:
        if not _is_pending(state):
            return views.NOT_PENDING
        return PendingStatus(self._controller.plan.verdicts.get(state.id), positions.get(state.id, 0))


def _is_pending(state: JobState) -> bool:
    return state.status.phase is Phase.QUEUED


def _has_ended(state: JobState) -> bool:
    return state.status.phase in TERMINAL


def _listing_order(state: JobState, positions: Mapping[str, int]) -> tuple[int, int, int]:
    status = state.status
    if status.phase in HOLDING:
        return 0, status.admitted_at or 0, state.number
    if _is_pending(state):
        return 1, positions.get(state.id, len(positions) + 1), state.number
    return 2, 0, state.number


def _number(filters: Filters, key: str, default: int) -> int:
    text = filters.get(key, str(default))
    if not text.isdecimal() or len(text) > _MAX_DIGITS:
        raise ApiError(Code.BAD_REQUEST, f"{key} is a number, not {text[:40]!r}")
    return int(text)
