"""Queries of the API, for HTTP and for calls from the same process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import windlass
from windlass.controller.controller import Controller
from windlass.core.model.queue import Queue
from windlass.core.model.status import HOLDING, TERMINAL, JobState, Phase
from windlass.server import views
from windlass.server.data_source import DataSource
from windlass.server.errors import ApiError, ErrorCode
from windlass.server.feed import EventFeed, FollowedEvents
from windlass.server.job_filter import HistoryFilter, JobListing, parse_history, parse_listing
from windlass.server.job_lines import Json, job_line
from windlass.server.job_lookup import JobLookup, listing_order
from windlass.server.progress import summarize_progress
from windlass.server.scheduler_queries import SchedulerQueries

if TYPE_CHECKING:
    from windlass.server.telemetry_records.queries import HistorySpan

Filters: TypeAlias = Mapping[str, str]


class Service:
    """The read side of the API, over one controller and its backend. Methods raise ApiError, BackendError.

    `kind`: "up" for a daemon, "run" for the controller of a foreground job, "operator" for that of a cluster.
    `telemetry`: path of the telemetry store; None: telemetry is not recorded.
    """

    def __init__(
        self, controller: Controller, source: DataSource, feed: EventFeed, kind: str, telemetry: Path | None = None
    ) -> None:
        self._controller = controller
        self.source = source
        self._feed = feed
        self.kind = kind
        self._telemetry = telemetry
        self._began = source.now()
        self.lookup = JobLookup(controller, source)
        self.scheduler = SchedulerQueries(controller, source, self.lookup)
        self.events = FollowedEvents(controller, source.records, feed, self.lookup)
        self.find_schedule: Callable[[str], Json | None] = lambda _name: None
        """Looks up a schedule by its name; only a daemon has schedules."""
        self.list_schedules: Callable[[Callable[[str], bool]], Iterable[Json]] = lambda _is_shown: ()
        """Yields the schedules whose ids a predicate accepts, by name."""
        self.is_ending = False
        """Whether the controller has been asked to end."""

    def ping(self) -> Json:
        """Version, process and cluster of the controller, with counts of jobs."""
        nodes = self._controller.snapshot().table.nodes
        phases = [state.status.phase for state in self._controller.states.values()]
        return {
            "version": windlass.__version__,
            "pid": os.getpid(),
            "kind": self.kind,
            "state": self.source.location(),
            "since": self._began,
            "now": self.source.now(),
            "cluster": self.source.cluster(),
            "nodes": len(nodes),
            "capacity": views.total_capacity(nodes),
            "waiting": phases.count(Phase.QUEUED),
            "holding": sum(phase in HOLDING for phase in phases),
            "ending": self.is_ending,
            "trouble": self._feed.trouble or self.source.trouble(),
        }

    def namespaces(self) -> set[str]:
        """Namespaces of a cluster's jobs and gangs, which their ids begin with."""
        held, running = (state.id for state in self.source.held_jobs()), self._controller.snapshot().running
        return {each.partition("/")[0] for each in (*self._controller.states, *running, *held)}

    async def jobs(self, filters: Filters) -> list[Json]:
        """Jobs as lines: holders of nodes, then pending jobs in queue order, then others, then ended jobs.

        Filters: see `parse_listing`. Ended jobs are listed only if the filter selects them, the latest first.
        """
        return (await self.job_page(parse_listing(filters)))[0]

    async def job_page(self, listing: JobListing) -> tuple[list[Json], int]:
        """A part of that listing, and the number of jobs of all of it. Ended jobs count up to the end of the page."""
        end = listing.offset + listing.limit
        positions = self.lookup.positions()
        chosen = [
            state for state in (*self._controller.states.values(), *self.source.held_jobs()) if listing.has(state)
        ]
        chosen.sort(key=lambda state: listing_order(state, positions))
        if listing.jobs.ended and len(chosen) < end:
            known = {state.id for state in chosen}
            ended = await self.source.records.ended(listing.jobs, end)
            chosen += [state for state in ended if state.id not in known and listing.has(state)]
        total = len(chosen)
        chosen = chosen[listing.offset : end]
        lines = self.lookup.lines(chosen, positions, listing.fields)
        if listing.progress:
            lines = [{**line, "progress": await self._progress(s)} for line, s in zip(lines, chosen, strict=True)]
        if listing.last_nodes:
            placed = await self.source.records.last_nodes([s for s in chosen if s.status.phase in TERMINAL])
            lines = [{**line, "last_nodes": placed.get(s.id, [])} for line, s in zip(lines, chosen, strict=True)]
        return lines, total

    async def _progress(self, state: JobState) -> Json | None:
        if state.status.phase not in HOLDING:
            return None
        return summarize_progress(self.source.records.ranks_seen(state, await self.source.records.tasks(state.id)))

    async def job(self, name: str) -> Json:
        """All details of a job, the lines of an array's members, or the line of a schedule."""
        if schedule := self.find_schedule(name):
            return schedule
        states = await self.lookup.states(name)
        positions = self.lookup.positions()
        if len(states) > 1:
            return {"id": name, "members": [self.lookup.line(state, positions) for state in states]}
        state = states[0]
        records = self.source.records
        tasks, transitions = await records.tasks(state.id), await records.transitions(state.id)
        resources = self.source.rank_resources(state, tasks)
        state = replace(state, job=self.source.redact(state.job))
        seen = summarize_progress(records.ranks_seen(state, tasks))
        wait = self.source.member_wait(state.id)
        return {
            **views.job_details(state, self.lookup.pending_status(state, positions), tasks, transitions, resources),
            "progress": seen,
            "member_wait": None if wait is None else {"reason": wait[0], "message": wait[1]},
        }

    async def metrics(self, name: str, span: HistorySpan) -> Json:
        """Stored telemetry of a job."""
        job_id, scope = await self._measured_job(name)
        return {"id": job_id, **await self.series(scope, span)}

    async def metrics_stamp(self, name: str) -> str:
        """The same text until the stored telemetry of a job changes."""
        return await self.series_stamp((await self._measured_job(name))[1])

    async def _measured_job(self, name: str) -> tuple[str, str]:
        """Id of a job, and the scope of its telemetry."""
        from windlass.telemetry.frames import job_scope  # noqa: PLC0415 - rarely needed

        ids = await self.lookup.ids(name)
        if len(ids) > 1:
            raise ApiError(ErrorCode.BAD_REQUEST, f"{name} is an array", f"name one of its jobs: {ids[0]}")
        return ids[0], job_scope(ids[0])

    async def series(self, scope: str, span: HistorySpan) -> Json:
        """Stored telemetry of a scope: of the cluster, of a queue, of a job."""
        from windlass.server.telemetry_records.queries import stored_series  # noqa: PLC0415 - rarely needed

        found = await asyncio.to_thread(stored_series, self._telemetry_file(), scope, span)
        return {"statistic": span.statistic, "series": found}

    async def series_stamp(self, scope: str) -> str:
        """The same text until the stored telemetry of a scope changes."""
        from windlass.server.telemetry_records.queries import stored_stamp  # noqa: PLC0415 - rarely needed

        return await asyncio.to_thread(stored_stamp, self._telemetry_file(), scope)

    def has_telemetry(self) -> bool:
        """False before the first frame of this state's telemetry."""
        return self._telemetry is not None and self._telemetry.exists()

    def _telemetry_file(self) -> Path:
        if self._telemetry is None:
            raise ApiError(ErrorCode.WRONG_STATE, "this controller records no telemetry")
        return self._telemetry

    def nodes(self) -> list[Json]:
        """All nodes."""
        snapshot, now = self._controller.snapshot(), self.source.now()
        running, reserved = snapshot.running.values(), snapshot.reservations
        return [views.node_line(node, running, reserved, now) for node in snapshot.table.nodes]

    def queues(self) -> list[Json]:
        """All queues that are declared or used."""
        snapshot = self._controller.snapshot()
        states = list(self._controller.states.values())
        named = {state.job.queue: Queue(state.job.queue) for state in states} | dict(snapshot.queues)
        return [
            views.queue_line(queue, snapshot.usage_by_queue.get(name, {}), states)
            for name, queue in sorted(named.items())
        ]

    async def history(self, filters: Filters) -> list[Json]:
        """Ended jobs, the last first. Filters: see `parse_history`."""
        return await self.ended_jobs(parse_history(filters))

    async def ended_jobs(self, chosen: HistoryFilter) -> list[Json]:
        """Ended jobs, the last first."""
        return [job_line(state) for state in await self.source.records.history(chosen)]
