"""Views of the pages, over the queries of the service. Each returns what one page shows."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any

from windlass.backends.port import BackendError
from windlass.controller.controller import Controller
from windlass.core.model.status import CANCELLED, JobState
from windlass.server.dashboard.audience import EVERYTHING, Audience
from windlass.server.dashboard.first_starts import FirstStarts
from windlass.server.dashboard.gpu_types import gpu_types
from windlass.server.dashboard.lost_work import StepRecord, losses
from windlass.server.dashboard.node_use import node_use
from windlass.server.dashboard.overview import RECENT_MS, overview, without_nodes
from windlass.server.dashboard.page_sources import PageSources
from windlass.server.dashboard.slowness import slowness
from windlass.server.dashboard.time_axis import TimeAxis
from windlass.server.dashboard.view import View
from windlass.server.errors import ApiError, ErrorCode
from windlass.server.job_filter import HistoryFilter, JobListing, parse_history, parse_listing
from windlass.server.service import Service
from windlass.server.telemetry_records.queries import HistorySpan, read_span
from windlass.telemetry.frames import CLUSTER, job_scope, node_scope, queue_scope

Json = dict[str, Any]
Filters = Mapping[str, str]
_MAX_ROWS = "200"
_MAX_MEASURED = 100
"""Running jobs whose ranks are read for the use of nodes."""
_COURSES: Mapping[str, Callable[[str], str]] = MappingProxyType({"course": queue_scope, "node_course": node_scope})
"""Views of recorded telemetry by name, and the scope of telemetry for a name."""
_HISTORY_FILTERS = ("name", "user", "since", "namespace")
_HISTORY_ROWS = 500
_HISTORY_READ = 5_000
"""Ended jobs among which the filters by state and queue choose, the last first."""
_COURSE_POINTS = 300
_MAX_VALUES = 1_000_000
"""Values of the telemetry of one job in an answer: 1,000 points of 250 ranks with four series."""
_MAX_HOURS = 24 * 365
"""Longest course that is shown; telemetry is kept for a shorter time."""
_NO_HISTORY = {"kind": "history", "name": "History", "text": "does not answer: jobs that have ended are missing here"}
_MAX_DIGITS = 16
_MAX_SCHEDULES, _LAST_RUNS = 200, 3
VIEWS = ("overview", "queue", "time_axis", "history", "nodes", "node_use", "share", "choices", "course", "schedules")
"""Views that need no name."""


@dataclass(frozen=True, slots=True)
class PageViews:
    """The views of one controller for one audience. Methods raise ApiError, BackendError."""

    service: Service
    controller: Controller
    sources: PageSources
    axis: TimeAxis
    starts: FirstStarts
    audience: Audience = EVERYTHING

    def about(self) -> Json:
        """Version and cluster, for the head of every page."""
        ping = self.service.ping()
        return {name: ping[name] for name in ("version", "cluster", "state", "trouble")}

    def find(self, view: str, name: str, filters: Filters) -> View | None:
        """A view by the parameters of a request; None if there is no such view. Raises ApiError."""
        if name:
            return self._find_one(view, name, filters)
        if view == "queue":
            listing = parse_listing({"limit": _MAX_ROWS, **filters, "progress": "1"}, self.audience.namespaces)
            return View((view, listing), partial(self._queue, listing))
        if view == "history":
            known = {key: text for key, text in filters.items() if key in _HISTORY_FILTERS and text}
            chosen = replace(parse_history(known, self.audience.namespaces), limit=_HISTORY_READ)
            state, queue = filters.get("state", ""), filters.get("queue", "")
            return View((view, chosen, state, queue), partial(self._history, chosen, state, queue))
        if view == "course":
            return self._find_course(CLUSTER, filters)
        of_all: dict[str, Callable[[], Awaitable[Any]]] = {
            "overview": self._overview,
            "time_axis": self._time_axis,
            "node_use": self._node_use,
            "nodes": self._nodes,
            "share": self._share,
            "choices": self._choices,
            "schedules": self._schedules,
        }
        return View((view,), of_all[view]) if view in of_all else None

    def _find_one(self, view: str, name: str, filters: Filters) -> View | None:
        """A view of one job, queue or node."""
        if view == "metrics":
            span = read_span(filters)._replace(values=_MAX_VALUES)
            stamp = partial(self.service.metrics_stamp, name)
            return View((view, name, span), partial(self.service.metrics, name, span), stamp)
        if view == "why":
            change = filters.get("what_if", "").strip()
            return View((view, name, change), partial(self.service.scheduler.explain, name, change))
        if view in _COURSES:
            return self._find_course(_COURSES[view](name), filters)
        of_one: dict[str, Callable[[str], Awaitable[Any]]] = {
            "job": self._job,
            "node": self._node,
            "findings": self._find_causes,
            "checkpoints": self._checkpoints,
            "slowness": self._slowness,
        }
        return View((view, name), partial(of_one[view], name)) if view in of_one else None

    def _find_course(self, scope: str, filters: Filters) -> View:
        hours = max(1, min(_number(filters.get("hours", "1")), _MAX_HOURS))
        if not self.service.has_telemetry():
            return View(("no course",), _no_course)
        stamp = partial(self.service.series_stamp, scope)
        return View(("course", scope, hours), partial(self._course, scope, hours), stamp)

    async def _overview(self) -> Json:
        audience, now = self.audience, self.service.source.now()
        recent = HistoryFilter(since=now - RECENT_MS, visible=audience.namespaces)
        ended, gaps = await self._read_recent(recent)
        states = [state for state in self.controller.states.values() if audience.sees(state.id)]
        found = overview(self.controller.snapshot(), states, ended, self.controller.plan.verdicts, now)
        found["findings"] = [*gaps, *found["findings"]]
        found["changes"] = await self.starts.name_nodes(found["changes"], self.service.source.records.transitions)
        return found if audience.may_read("nodes") else without_nodes(found)

    async def _read_recent(self, recent: HistoryFilter) -> tuple[Sequence[JobState], Sequence[Json]]:
        """Jobs that have ended; without an answer of history none, and a finding that says so."""
        try:
            return await self.service.source.records.history(recent), ()
        except BackendError:  # its writer reports the reason
            return (), (_NO_HISTORY,)

    async def _queue(self, listing: JobListing) -> Json:
        rows, total = await self.service.job_page(listing)
        return {"jobs": rows, "total": total, "now": self.service.source.now()}

    async def _time_axis(self) -> Json:
        return await self.axis.rows(self.controller, self.service.source.now(), self.audience)

    async def _nodes(self) -> Json:
        return {"nodes": self.service.nodes(), "now": self.service.source.now()}

    async def _node_use(self) -> Json:
        running = parse_listing({"phase": "Running", "progress": "1"}, self.audience.namespaces)
        rows, total = await self.service.job_page(replace(running, limit=_MAX_MEASURED))
        return {"nodes": node_use(rows), "left_out": total - len(rows)}

    async def _node(self, name: str) -> Json:
        past = await self.sources.node_history(name, self.audience.namespaces)
        return {"past": past, "now": self.service.source.now()}

    async def _share(self) -> Json:
        return self.service.scheduler.shares()

    async def _schedules(self) -> Json:
        """Schedules with their latest outcome and their last runs that have ended; whether there are more."""
        found = list(islice(self.service.list_schedules(self.audience.sees), _MAX_SCHEDULES + 1))
        shown = [{key: line[key] for key in line if key != "spec"} for line in found[:_MAX_SCHEDULES]]
        lines = [line if "runs" in line else {**line, "runs": await self._last_runs(line["name"])} for line in shown]
        rows = [{**line, "notes": line["notes"][-1:]} for line in lines]
        return {"schedules": rows, "is_cut": len(found) > _MAX_SCHEDULES}

    async def _last_runs(self, name: str) -> list[Json]:
        chosen = replace(parse_history({"name": name}, self.audience.namespaces), limit=_LAST_RUNS)
        rows = await self.service.ended_jobs(chosen)
        return [{key: row[key] for key in ("id", "phase", "reason", "finished_at")} for row in rows]

    async def _choices(self) -> Json:
        """Values that a job may ask for instead: types of GPUs, and queues."""
        snapshot = self.controller.snapshot()
        return {"gpu_types": gpu_types(snapshot), "queues": sorted(snapshot.queues)}

    async def _history(self, chosen: HistoryFilter, state: str, queue: str) -> Json:
        rows = await self.service.ended_jobs(chosen)
        kept = [row for row in rows if state in ("", _state(row)) and queue in ("", row["queue"])]
        return {"jobs": kept[:_HISTORY_ROWS], "total": len(kept), "is_cut": len(rows) == _HISTORY_READ}

    async def _job(self, name: str) -> Json:
        return {**await self.service.job(name), "now": self.service.source.now()}

    async def _find_causes(self, name: str) -> Json:
        return await self.sources.findings(await self.service.job(name))

    async def _checkpoints(self, name: str) -> Json:
        details = await self.service.job(name)
        if "members" in details:
            raise ApiError(ErrorCode.BAD_REQUEST, f"{name} is an array", "name one of its jobs")
        found = await self.sources.checkpoints(details)
        complete = {each["step"]: each["saved_at"] for each in found["checkpoints"] if each["state"] == "complete"}
        saved = None if found["is_remote"] or found["trouble"] else complete
        record = await self._steps(details["id"])
        step = (details["progress"] or {}).get("step")
        if record.times and step is not None and details["finished_at"]:
            record = record.until(details["finished_at"], step)
        return {**found, "losses": losses(details["transitions"], record, saved)}

    async def _slowness(self, name: str) -> Json:
        return {"causes": slowness(await self.service.job(name))}

    async def _steps(self, job_id: str) -> StepRecord:
        """Recorded steps; none if the controller records no telemetry."""
        try:
            series = (await self.service.series(job_scope(job_id), HistorySpan(statistic="max")))["series"]
        except ApiError:
            return StepRecord()
        found = next((each for each in series if each["series"] == "windlass_job_step"), None)
        return StepRecord(found["times"], [row[0] for row in found["values"]]) if found else StepRecord()

    async def _course(self, scope: str, hours: int) -> Json:
        since = self.service.source.now() - hours * 3_600_000
        return await self.service.series(scope, HistorySpan(since, points=_COURSE_POINTS))

    async def log(self, name: str, filters: Filters) -> Json:
        """A piece of a job's output. Filters: attempt, rank, after (JSON: offsets of the piece before)."""
        ids = await self.service.lookup.ids(name)
        attempt = _number(filters["attempt"]) if filters.get("attempt") else None
        ranks = [_number(filters["rank"])] if filters.get("rank") else None
        after = _offsets(filters.get("after", "{}"))
        return await self.sources.log(ids[0], attempt, ranks, after)


async def _no_course() -> Json:
    """The course of a scope before anything has been recorded."""
    return {"series": []}


def _state(row: Mapping[str, Any]) -> str:
    """The state of an ended job."""
    is_cancelled = row["phase"] == "Failed" and row["reason"] == CANCELLED
    return CANCELLED if is_cancelled else str(row["phase"])


def _number(text: str) -> int:
    if not text.removeprefix("-").isdecimal() or len(text) > _MAX_DIGITS:
        raise ApiError(ErrorCode.BAD_REQUEST, f"not a number: {text[:40]!r}")
    return int(text)


def _offsets(text: str) -> dict[str, int]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, int) and value >= 0 for value in found.values()):
        raise ApiError(ErrorCode.BAD_REQUEST, "after: not the offsets of an earlier answer")
    return found
