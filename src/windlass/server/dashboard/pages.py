"""Views of the pages, over the queries of the service. Each returns what one page shows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any

from windlass.backends.local.paths import StatePaths
from windlass.controller.controller import Controller
from windlass.core.model.status import CANCELLED
from windlass.server.actions import JOB_ACTIONS, Actions
from windlass.server.dashboard.findings import JobFindings
from windlass.server.dashboard.gpu_types import gpu_types
from windlass.server.dashboard.job_checkpoints import read_checkpoints
from windlass.server.dashboard.log_view import read_log
from windlass.server.dashboard.lost_work import StepRecord, losses
from windlass.server.dashboard.node_history import read_node_history
from windlass.server.dashboard.node_use import node_use
from windlass.server.dashboard.overview import RECENT_MS, overview
from windlass.server.dashboard.rerun_environment import read_rerun_environment
from windlass.server.dashboard.simulation import Simulation
from windlass.server.dashboard.slowness import slowness
from windlass.server.dashboard.time_axis import time_axis
from windlass.server.errors import ApiError, ErrorCode
from windlass.server.rerun import rerun_request
from windlass.server.service import Service
from windlass.telemetry.frames import CLUSTER, job_scope, queue_scope

Json = dict[str, Any]
Filters = Mapping[str, str]
_MAX_ROWS = "200"
_MAX_MEASURED = "100"
"""Running jobs whose ranks are read for the use of nodes."""
_HISTORY_ROWS = 500
_HISTORY_READ = "5000"
"""Ended jobs among which the filters by state and queue choose, the last first."""
_MAX_DIGITS = 16
_AXIS_MS = 5_000
"""Time for which a time axis is kept: with many jobs it takes a second to compute."""
_MAX_PRIORITY = 1_000_000


class PageViews:
    """The views of one controller. Methods raise ApiError, BackendError."""

    def __init__(self, service: Service, controller: Controller, actions: Actions, paths: StatePaths) -> None:
        self._service, self._controller, self._actions, self._paths = service, controller, actions, paths
        self._findings = JobFindings(paths)
        self.simulation = Simulation(service.scheduler, controller)
        self._axis: Json | None = None

    def about(self) -> Json:
        """Version and cluster, for the head of every page."""
        ping = self._service.ping()
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
        of_one: dict[str, Callable[[str, Filters], Awaitable[Any]]] = {
            "job": self._job,
            "why": self._explain,
            "metrics": self._metrics,
            "node": self._node,
            "findings": self._find_causes,
            "checkpoints": self._checkpoints,
            "rerun": self._rerun_environment,
            "slowness": self._slowness,
        }
        if name:
            return partial(of_one[view], name, filters) if view in of_one else None
        return of_all.get(view)

    async def _overview(self) -> Json:
        now = self._service.source.now()
        ended = await self._service.source.records.history(name="", user="", since=now - RECENT_MS, limit=1_000)
        states, verdicts = self._controller.states.values(), self._controller.plan.verdicts
        return overview(self._controller.snapshot(), states, ended, verdicts, now)

    async def _queue(self, filters: Filters) -> Json:
        rows, total = await self._service.job_page({"limit": _MAX_ROWS, **filters, "progress": "1"})
        return {"jobs": rows, "total": total, "now": self._service.source.now()}

    async def _time_axis(self) -> Json:
        now = self._service.source.now()
        if self._axis is None or not 0 <= now - self._axis["now"] < _AXIS_MS:
            snapshot, order = self._controller.snapshot(), tuple(self._controller.plan.order)
            self._axis = await asyncio.to_thread(time_axis, snapshot, order, now)
        return self._axis

    async def _nodes(self) -> Json:
        return {"nodes": self._service.nodes(), "now": self._service.source.now()}

    async def _node_use(self) -> Json:
        rows, total = await self._service.job_page({"phase": "Running", "limit": _MAX_MEASURED, "progress": "1"})
        return {"nodes": node_use(rows), "left_out": total - len(rows)}

    async def _node(self, name: str, _filters: Filters) -> Json:
        return {
            "past": await asyncio.to_thread(read_node_history, self._paths, name),
            "now": self._service.source.now(),
        }

    async def _share(self) -> Json:
        return self._service.scheduler.shares()

    async def _choices(self) -> Json:
        """Values that a job may ask for instead: types of GPUs, and queues."""
        snapshot = self._controller.snapshot()
        return {"gpu_types": gpu_types(snapshot), "queues": sorted(snapshot.queues)}

    async def _history(self, filters: Filters) -> Json:
        rows = await self._service.history(
            {"limit": _HISTORY_READ, **_known(filters, ("name", "user", "since", "namespace"))}
        )
        kept = [row for row in rows if _is_chosen(row, filters)]
        return {"jobs": kept[:_HISTORY_ROWS], "total": len(kept), "is_cut": len(rows) == int(_HISTORY_READ)}

    async def _job(self, name: str, _filters: Filters) -> Json:
        return {**await self._service.job(name), "now": self._service.source.now()}

    async def _explain(self, name: str, filters: Filters) -> Json:
        return await self._service.scheduler.explain(name, filters.get("what_if", ""))

    async def _metrics(self, name: str, filters: Filters) -> Json:
        return await self._service.metrics(name, filters)

    async def _find_causes(self, name: str, _filters: Filters) -> Json:
        return await self._findings.of(await self._service.job(name))

    async def _checkpoints(self, name: str, _filters: Filters) -> Json:
        details = await self._service.job(name)
        if "members" in details:
            raise ApiError(ErrorCode.BAD_REQUEST, f"{name} is an array", "name one of its jobs")
        found = await asyncio.to_thread(read_checkpoints, self._paths, details["id"])
        complete = {each["step"]: each["saved_at"] for each in found["checkpoints"] if each["state"] == "complete"}
        saved = None if found["is_remote"] or found["trouble"] else complete
        return {**found, "losses": losses(details["transitions"], await self._steps(details["id"]), saved)}

    async def _rerun_environment(self, name: str, _filters: Filters) -> Json:
        found = read_rerun_environment(self._paths, (await self._service.lookup.ids(name))[0])
        return {
            "is_kept": found.variables is not None,
            "filled": found.filled,
            "missing": found.missing,
            "checkpoints": found.checkpoints,
        }

    async def _slowness(self, name: str, _filters: Filters) -> Json:
        return {"causes": slowness(await self._service.job(name))}

    async def _steps(self, job_id: str) -> StepRecord:
        """Recorded steps; none if the controller records no telemetry."""
        try:
            series = (await self._service.series(job_scope(job_id), {"statistic": "max"}))["series"]
        except ApiError:
            return StepRecord()
        found = next((each for each in series if each["series"] == "windlass_job_step"), None)
        return StepRecord(found["times"], [row[0] for row in found["values"]]) if found else StepRecord()

    async def _course(self, scope: str, filters: Filters) -> Json:
        hours = _number(filters.get("hours", "1"))
        since = self._service.source.now() - max(1, hours) * 3_600_000
        return await self._service.series(scope, {"since": str(since), "points": "300"})

    async def log(self, name: str, filters: Filters) -> Json:
        """A piece of a job's output. Filters: attempt, rank, after (JSON: offsets of the piece before)."""
        ids = await self._service.lookup.ids(name)
        attempt = _number(filters["attempt"]) if filters.get("attempt") else None
        ranks = [_number(filters["rank"])] if filters.get("rank") else None
        after = _offsets(filters.get("after", "{}"))
        return await asyncio.to_thread(read_log, self._paths, ids[0], attempt, ranks, after)

    async def act(self, verb: str, name: str, body: Mapping[str, Any]) -> Json:
        """Cancels, suspends or resumes a job, changes its priority, or submits it again after its end."""
        if verb in JOB_ACTIONS:
            return await self._actions.act(verb, name, body)
        if verb == "priority":
            return await self._actions.set_priority(name, _priority(body.get("priority")))
        if verb == "rerun":
            state = await self._service.lookup.state((await self._service.lookup.ids(name))[0])
            environment = read_rerun_environment(self._paths, state.id)
            return {"ids": await self._actions.submit(rerun_request(state, environment.variables))}
        verbs = ", ".join((*JOB_ACTIONS, "priority", "rerun"))
        raise ApiError(ErrorCode.BAD_REQUEST, f"there is no action {verb[:40]!r}", f"use one of {verbs}")


def _known(filters: Filters, names: Collection[str]) -> dict[str, str]:
    return {name: text for name, text in filters.items() if name in names and text}


def _is_chosen(row: Mapping[str, Any], filters: Filters) -> bool:
    """Whether an ended job has the state and the queue of the filters."""
    is_cancelled = row["phase"] == "Failed" and row["reason"] == CANCELLED
    state = CANCELLED if is_cancelled else row["phase"]
    return filters.get("state", "") in ("", state) and filters.get("queue", "") in ("", row["queue"])


def _priority(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _MAX_PRIORITY:
        raise ApiError(ErrorCode.BAD_REQUEST, f"priority is a whole number from -{_MAX_PRIORITY} to {_MAX_PRIORITY}")
    return value


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
