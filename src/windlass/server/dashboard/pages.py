"""Views of the pages, over the queries of the service. Each returns what one page shows."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from windlass.controller.controller import Controller
from windlass.core.model.status import CANCELLED
from windlass.server.dashboard.audience import EVERYTHING, Audience
from windlass.server.dashboard.gpu_types import gpu_types
from windlass.server.dashboard.lost_work import StepRecord, losses
from windlass.server.dashboard.node_use import node_use
from windlass.server.dashboard.overview import RECENT_MS, overview, without_nodes
from windlass.server.dashboard.page_sources import PageSources
from windlass.server.dashboard.slowness import slowness
from windlass.server.dashboard.time_axis import TimeAxis
from windlass.server.errors import ApiError, ErrorCode
from windlass.server.service import Service
from windlass.telemetry.frames import CLUSTER, job_scope, node_scope, queue_scope

Json = dict[str, Any]
Filters = Mapping[str, str]
_MAX_ROWS = "200"
_MAX_MEASURED = "100"
"""Running jobs whose ranks are read for the use of nodes."""
_HISTORY_ROWS = 500
_HISTORY_READ = "5000"
"""Ended jobs among which the filters by state and queue choose, the last first."""
_MAX_DIGITS = 16


@dataclass(frozen=True, slots=True)
class PageViews:
    """The views of one controller for one audience. Methods raise ApiError, BackendError."""

    service: Service
    controller: Controller
    sources: PageSources
    axis: TimeAxis
    audience: Audience = EVERYTHING

    def about(self) -> Json:
        """Version and cluster, for the head of every page."""
        ping = self.service.ping()
        return {name: ping[name] for name in ("version", "cluster", "state", "trouble")}

    def find(self, view: str, name: str, filters: Filters) -> Callable[[], Awaitable[Any]] | None:
        """The function that computes a view; None if there is no such view."""
        of_all: dict[str, Callable[[], Awaitable[Any]]] = {
            "overview": self._overview,
            "queue": partial(self._queue, filters),
            "time_axis": self._time_axis,
            "node_use": self._node_use,
            "nodes": self._nodes,
            "share": self._share,
            "choices": self._choices,
            "history": partial(self._history, filters),
            "course": partial(self._course, CLUSTER, filters),
        }
        if view == "course" and name:
            return partial(self._course, queue_scope(name), filters)
        if view == "node_course" and name:
            return partial(self._course, node_scope(name), filters)
        of_one: dict[str, Callable[[str, Filters], Awaitable[Any]]] = {
            "job": self._job,
            "why": self._explain,
            "metrics": self._metrics,
            "node": self._node,
            "findings": self._find_causes,
            "checkpoints": self._checkpoints,
            "slowness": self._slowness,
        }
        if name:
            return partial(of_one[view], name, filters) if view in of_one else None
        return of_all.get(view)

    async def _overview(self) -> Json:
        audience, now = self.audience, self.service.source.now()
        ended = await self.service.source.records.history(
            name="", user="", since=now - RECENT_MS, limit=1_000, visible=audience.namespaces
        )
        states = [state for state in self.controller.states.values() if audience.sees(state.id)]
        found = overview(self.controller.snapshot(), states, ended, self.controller.plan.verdicts, now)
        return found if audience.may_read("nodes") else without_nodes(found)

    async def _queue(self, filters: Filters) -> Json:
        asked = {"limit": _MAX_ROWS, **filters, "progress": "1"}
        rows, total = await self.service.job_page(asked, self.audience.namespaces)
        return {"jobs": rows, "total": total, "now": self.service.source.now()}

    async def _time_axis(self) -> Json:
        return await self.axis.rows(self.controller, self.service.source.now(), self.audience)

    async def _nodes(self) -> Json:
        return {"nodes": self.service.nodes(), "now": self.service.source.now()}

    async def _node_use(self) -> Json:
        rows, total = await self.service.job_page(
            {"phase": "Running", "limit": _MAX_MEASURED, "progress": "1"}, self.audience.namespaces
        )
        return {"nodes": node_use(rows), "left_out": total - len(rows)}

    async def _node(self, name: str, _filters: Filters) -> Json:
        past = await self.sources.node_history(name, self.audience.namespaces)
        return {"past": past, "now": self.service.source.now()}

    async def _share(self) -> Json:
        return self.service.scheduler.shares()

    async def _choices(self) -> Json:
        """Values that a job may ask for instead: types of GPUs, and queues."""
        snapshot = self.controller.snapshot()
        return {"gpu_types": gpu_types(snapshot), "queues": sorted(snapshot.queues)}

    async def _history(self, filters: Filters) -> Json:
        rows = await self.service.history(
            {"limit": _HISTORY_READ, **_known(filters, ("name", "user", "since", "namespace"))},
            self.audience.namespaces,
        )
        kept = [row for row in rows if _is_chosen(row, filters)]
        return {"jobs": kept[:_HISTORY_ROWS], "total": len(kept), "is_cut": len(rows) == int(_HISTORY_READ)}

    async def _job(self, name: str, _filters: Filters) -> Json:
        return {**await self.service.job(name), "now": self.service.source.now()}

    async def _explain(self, name: str, filters: Filters) -> Json:
        return await self.service.scheduler.explain(name, filters.get("what_if", ""))

    async def _metrics(self, name: str, filters: Filters) -> Json:
        return await self.service.metrics(name, filters)

    async def _find_causes(self, name: str, _filters: Filters) -> Json:
        return await self.sources.findings(await self.service.job(name))

    async def _checkpoints(self, name: str, _filters: Filters) -> Json:
        details = await self.service.job(name)
        if "members" in details:
            raise ApiError(ErrorCode.BAD_REQUEST, f"{name} is an array", "name one of its jobs")
        found = await self.sources.checkpoints(details)
        complete = {each["step"]: each["saved_at"] for each in found["checkpoints"] if each["state"] == "complete"}
        saved = None if found["is_remote"] or found["trouble"] else complete
        return {**found, "losses": losses(details["transitions"], await self._steps(details["id"]), saved)}

    async def _slowness(self, name: str, _filters: Filters) -> Json:
        return {"causes": slowness(await self.service.job(name))}

    async def _steps(self, job_id: str) -> StepRecord:
        """Recorded steps; none if the controller records no telemetry."""
        try:
            series = (await self.service.series(job_scope(job_id), {"statistic": "max"}))["series"]
        except ApiError:
            return StepRecord()
        found = next((each for each in series if each["series"] == "windlass_job_step"), None)
        return StepRecord(found["times"], [row[0] for row in found["values"]]) if found else StepRecord()

    async def _course(self, scope: str, filters: Filters) -> Json:
        hours = _number(filters.get("hours", "1"))
        since = self.service.source.now() - max(1, hours) * 3_600_000
        return await self.service.series(scope, {"since": str(since), "points": "300"})

    async def log(self, name: str, filters: Filters) -> Json:
        """A piece of a job's output. Filters: attempt, rank, after (JSON: offsets of the piece before)."""
        ids = await self.service.lookup.ids(name)
        attempt = _number(filters["attempt"]) if filters.get("attempt") else None
        ranks = [_number(filters["rank"])] if filters.get("rank") else None
        after = _offsets(filters.get("after", "{}"))
        return await self.sources.log(ids[0], attempt, ranks, after)


def _known(filters: Filters, names: Collection[str]) -> dict[str, str]:
    return {name: text for name, text in filters.items() if name in names and text}


def _is_chosen(row: Mapping[str, Any], filters: Filters) -> bool:
    """Whether an ended job has the state and the queue of the filters."""
    is_cancelled = row["phase"] == "Failed" and row["reason"] == CANCELLED
    state = CANCELLED if is_cancelled else row["phase"]
    return filters.get("state", "") in ("", state) and filters.get("queue", "") in ("", row["queue"])


def _number(text: str) -> int:
    if not text.removeprefix("-").isdecimal() or len(text) > _MAX_DIGITS:
        raise ApiError(ErrorCode.BAD_REQUEST, f"not a number: {text[:40]!r}")
    return int(text)


def _offsets(text: str) -> dict[str, int]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, int) and value >= 0 for value in found.values()):
        raise ApiError(ErrorCode.BAD_REQUEST, "after: not the offsets of an earlier answer")
    return found
