"""What each call of the API means, whoever asks: over HTTP, or from the same process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

import msgspec

import windlass
from windlass.backends.waiting import comes
from windlass.controller import Controller
from windlass.core.model.queue import Queue
from windlass.core.model.status import HOLDING, TERMINAL, JobState, Phase, called
from windlass.server import views
from windlass.server.data_source import DataSource
from windlass.server.errors import ApiError, Code
from windlass.server.feed import Feed
from windlass.server.job_filter import parse_filter
from windlass.server.progress import summarize_progress
from windlass.server.scheduler_queries import SchedulerQueries
from windlass.server.views import Json, PendingStatus

Filters: TypeAlias = Mapping[str, str]
_LISTED = 1_000
_DIGITS = 18
"""Of any number that is asked for: the database takes 64 bits."""
_HEARTBEAT = 15.0
"""Seconds of silence after which a follower gets a sign of life."""


class Service:
    """The half of the API that asks, over one controller and its world. Methods raise ApiError, WorldError.

    `kind` says who answers: "up" a daemon, "run" the controller of a foreground job, "operator" that of a cluster.
    """

    def __init__(self, controller: Controller, facts: DataSource, feed: Feed, kind: str) -> None:
        self._controller = controller
        self._facts = facts
        self._feed = feed
        self.kind = kind
        self._began = facts.now()
        self.planning = SchedulerQueries(controller, facts)

    # --- asking ------------------------------------------------------------------------------------

    def ping(self) -> Json:
        """Who answers, and for what cluster."""
        nodes = self._controller.snapshot().table.nodes
        phases = [state.status.phase for state in self._controller.states.values()]
        return {
            "version": windlass.__version__,
            "pid": os.getpid(),
            "kind": self.kind,
            "state": self._facts.where(),
            "since": self._began,
            "now": self._facts.now(),
            "cluster": self._facts.cluster(),
            "nodes": len(nodes),
            "capacity": views.total_capacity(nodes),
            "waiting": phases.count(Phase.QUEUED),
            "holding": sum(phase in HOLDING for phase in phases),
            "trouble": self._feed.trouble or self._facts.trouble(),
        }

    async def jobs(self, filters: Filters) -> list[Json]:
        """Jobs that have not ended: those that hold nodes, then those that wait, next first, then the rest.

        Filters: those of `listed`, limit, and progress: how far those are that hold nodes. Those that have ended come
        last, the latest first.
        """
        wanted, limit = parse_filter(filters), _number(filters, "limit", _LISTED)
        positions = self._positions()
        chosen = [state for state in (*self._controller.states.values(), *self._facts.held()) if wanted.has(state)]
        chosen.sort(key=lambda state: _rank(state, positions))
        if wanted.ended and len(chosen) < limit:
            known = {state.id for state in chosen}
            ended = await self._facts.ended(wanted, limit)
            chosen += [state for state in ended if state.id not in known]
        chosen = chosen[:limit]
        lines = [views.job_line(state, self._waiting(state, positions)) for state in chosen]
        if not filters.get("progress"):
            return lines
        return [{**line, "progress": await self._progress(state)} for line, state in zip(lines, chosen, strict=True)]

    async def _progress(self, state: JobState) -> Json | None:
        if state.status.phase not in HOLDING:
            return None
        return summarize_progress(self._facts.ranks_seen(state, await self._facts.tasks(state.id)))

    async def job(self, name: str) -> Json:
        """The whole story of a job; of an array, its members' lines."""
        states = await self._states(name)
        positions = self._positions()
        if len(states) > 1:
            return {"id": name, "members": [views.job_line(state, self._waiting(state, positions)) for state in states]}
        state = states[0]
        tasks, transitions = await self._facts.tasks(state.id), await self._facts.transitions(state.id)
        told = self._facts.surroundings(state.job, tasks)
        state = replace(state, job=self._facts.shown(state.job))
        seen = summarize_progress(self._facts.ranks_seen(state, tasks))
        return {**views.job_details(state, self._waiting(state, positions), tasks, transitions, told), "progress": seen}

    async def why(self, name: str, what_if: str = "") -> Json:
        """Why it waits, in full; for a job that does not wait, its line and nothing more.

        `what_if`: as if it had asked for that instead. Far down a long queue this takes seconds, so it is worked out
        beside the loop; a snapshot does not change.
        """
        states = await self._states(name)
        state = next((state for state in states if _waits(state)), states[0])
        line = views.job_line(state, self._waiting(state, self._positions()))
        answer: Json = {"job": line, "now": self._facts.now()}
        if what_if and not _waits(state):
            raise ApiError(Code.WRONG_STATE, f"{state.id} does not wait: it is {called(state.status)}")
        if _waits(state):
            from windlass.server import pending_explanation  # noqa: PLC0415 - a `run` of 200 ms is never asked why

            snapshot, now = self._controller.snapshot(), self._facts.now()
            job = pending_explanation.change_job(state, what_if, snapshot) if what_if else None
            bare = self._facts.bare(state.job)
            answer |= await asyncio.to_thread(pending_explanation.explain_pending, snapshot, state, job, now, bare)
            answer["explanation"] = pending_explanation.use_listed_start(
                answer["explanation"], None if what_if else line
            )
        return answer

    async def prospect(self, name: str) -> Json:
        """What is to be said of a job as soon as it waits: why it can never run on the cluster as it is, or ""."""
        from windlass.server import pending_explanation  # noqa: PLC0415 - see above

        states = await self._states(name)
        state = next((state for state in states if _waits(state)), states[0])
        if not _waits(state):
            return {"id": state.id, "never": ""}
        snapshot, bare = self._controller.snapshot(), self._facts.bare(state.job)
        told = await asyncio.to_thread(lambda: pending_explanation.find_impossibility(bare(snapshot), state.job))
        return {"id": state.id, "never": told}

    async def why_all(self) -> Json:
        """All that wait, next first, each with its reason and, of the first few, what would start now instead."""
        from windlass.server import pending_explanation  # noqa: PLC0415 - see above

        positions = self._positions()
        states = [*filter(_waits, self._controller.states.values()), *self._facts.held()]
        states.sort(key=lambda state: _rank(state, positions))
        lines = [views.job_line(state, self._waiting(state, positions)) for state in states[:_LISTED]]
        snapshot, now = self._controller.snapshot(), self._facts.now()
        return {"jobs": await asyncio.to_thread(pending_explanation.add_alternatives, snapshot, lines, now), "now": now}

    def nodes(self) -> list[Json]:
        """Every node."""
        snapshot, now = self._controller.snapshot(), self._facts.now()
        running, reserved = snapshot.running.values(), snapshot.reservations
        return [views.node_line(node, running, reserved, now) for node in snapshot.table.nodes]

    def queues(self) -> list[Json]:
        """Every queue that is declared or used."""
        snapshot = self._controller.snapshot()
        states = list(self._controller.states.values())
        named = {state.job.queue: Queue(state.job.queue) for state in states} | dict(snapshot.queues)
        return [views.queue_line(queue, snapshot.held.get(name, {}), states) for name, queue in sorted(named.items())]

    async def history(self, filters: Filters) -> list[Json]:
        """Jobs that have ended, the last first. Filters: name, user, since (ms), limit."""
        states = await self._facts.history(
            name=filters.get("name", ""),
            user=filters.get("user", ""),
            since=_number(filters, "since", 0),
            limit=_number(filters, "limit", _LISTED),
        )
        return [views.job_line(state) for state in states]

    async def ids(self, name: str) -> list[str]:
        """The jobs that a name or an id means: one, or an array's members."""
        return await self._facts.ids(name)

    async def state(self, job_id: str) -> JobState:
        """A job as it is by now, and on record."""
        await self._facts.settled()
        state = self._controller.states.get(job_id) or await self._facts.job(job_id)
        if state is None:
            raise ApiError(Code.NO_SUCH_JOB, f"{job_id} is no longer on record")
        return state

    # --- following ---------------------------------------------------------------------------------

    async def follow(self, names: str, after: int) -> AsyncIterator[Json]:
        """What happens to jobs and arrays (several by commas, "" means all), from event `after` on, until all ended."""
        ids = {job_id for name in names.split(",") if name for job_id in await self.ids(name)}
        return self._follow(ids, after)

    async def _follow(self, ids: set[str], after: int) -> AsyncIterator[Json]:
        news = self._feed.join()
        told: dict[str, tuple[object, int]] = {}
        ended: set[str] = set()
        try:
            while not self._feed.closed:
                news.clear()
                ends = [state for job_id in sorted(ids - ended) if _has_ended(state := await self.state(job_id))]
                for number, transition in await self._facts.events(after, ids):
                    after = number
                    yield {"type": "transition", "number": number, **msgspec.to_builtins(transition)}
                for event in self._verdicts(ids, told):
                    yield event
                for state in ends:
                    ended.add(state.id)
                    yield {"type": "end", "job": views.job_line(state)}
                if ids and ended == ids:
                    yield {"type": "all ended"}
                    return
                if not await comes(news, _HEARTBEAT):
                    yield {"type": "quiet"}
        finally:
            self._feed.leave(news)

    def _verdicts(self, ids: set[str], told: dict[str, tuple[object, int]]) -> Iterable[Json]:
        """The reasons of those that wait, where they have changed."""
        waiting = [job_id for job_id in ids if (s := self._controller.states.get(job_id)) and _waits(s)]
        positions = self._positions() if waiting else {}
        for job_id in waiting:
            state = self._controller.states[job_id]
            line = views.job_line(state, self._waiting(state, positions))
            news = (line["message"], line["position"])
            if told.get(job_id) != news:
                told[job_id] = news
                yield {"type": "verdict", "job": line}

    # --- plumbing ----------------------------------------------------------------------------------

    async def _states(self, name: str) -> list[JobState]:
        return [await self.state(job_id) for job_id in await self.ids(name)]

    def _positions(self) -> dict[str, int]:
        return {job_id: place for place, job_id in enumerate(self._controller.plan.order, start=1)}

    def _waiting(self, state: JobState, positions: Mapping[str, int]) -> PendingStatus:
        if not _waits(state):
            return views.NOT_PENDING
        return PendingStatus(self._controller.plan.verdicts.get(state.id), positions.get(state.id, 0))


def _waits(state: JobState) -> bool:
    return state.status.phase is Phase.QUEUED


def _has_ended(state: JobState) -> bool:
    return state.status.phase in TERMINAL


def _rank(state: JobState, positions: Mapping[str, int]) -> tuple[int, int, int]:
    status = state.status
    if status.phase in HOLDING:
        return 0, status.admitted_at or 0, state.number
    if _waits(state):
        return 1, positions.get(state.id, len(positions) + 1), state.number
    return 2, 0, state.number


def _number(filters: Filters, key: str, default: int) -> int:
    text = filters.get(key, str(default))
    if not text.isdecimal() or len(text) > _DIGITS:
        raise ApiError(Code.BAD_REQUEST, f"{key} is a number, not {text[:40]!r}")
    return int(text)
