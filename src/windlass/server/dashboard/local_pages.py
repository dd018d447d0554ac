"""Pages of this machine: views of its controller, records in its state folder, changes, and the simulation."""

from __future__ import annotations

import asyncio
import os
import pwd
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from windlass.backends.local.paths import StatePaths
from windlass.server.actions import JOB_ACTIONS, Actions
from windlass.server.dashboard.audience import EVERYTHING
from windlass.server.dashboard.findings import JobFindings
from windlass.server.dashboard.job_checkpoints import read_checkpoints
from windlass.server.dashboard.log_view import read_log
from windlass.server.dashboard.node_history import read_node_history
from windlass.server.dashboard.pages import VIEWS, Filters, PageViews
from windlass.server.dashboard.rerun_environment import read_rerun_environment
from windlass.server.dashboard.simulation import SIMULATION, Simulation
from windlass.server.dashboard.view import View
from windlass.server.dashboard.view_extensions import extension_names, find_extension_view
from windlass.server.errors import ApiError, ErrorCode
from windlass.server.job_update import JobUpdate, read_priority
from windlass.server.rerun import rerun_request
from windlass.server.service import Service

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class LocalPages:
    """The interface `app.Pages` for the only user of a state folder."""

    service: Service
    views: PageViews
    actions: Actions
    simulation: Simulation
    paths: StatePaths
    audience: str = EVERYTHING.key
    visitor: str = ""

    async def about(self) -> Json:
        """Version, cluster, and the names of the views that are served."""
        return {**self.views.about(), "views": [*VIEWS, SIMULATION, *extension_names()]}

    async def find(self, view: str, name: str, filters: Filters) -> View | None:
        """A view by the parameters of a request."""
        if view == "rerun" and name:
            return View((view, name), partial(self._rerun_environment, name))
        return self.views.find(view, name, filters) or await find_extension_view(view, name)

    async def _rerun_environment(self, name: str) -> Json:
        """Kept parts of the environment that a second run of a job has."""
        found = read_rerun_environment(self.paths, (await self.service.lookup.ids(name))[0])
        return {
            "is_kept": found.variables is not None,
            "filled": found.filled,
            "missing": found.missing,
            "checkpoints": found.checkpoints,
        }

    async def log(self, name: str, filters: Filters) -> Json:
        """A piece of a job's output."""
        return await self.views.log(name, filters)

    async def act(self, verb: str, name: str, body: Mapping[str, Any]) -> Json:
        """Cancels, suspends or resumes a job, changes its priority, or submits it again after its end."""
        if verb in JOB_ACTIONS:
            return await self.actions.act(verb, name, {**body, "by": f"{_user_name()} on the dashboard"})
        if verb == "priority":
            return await self.actions.update(name, JobUpdate(priority=read_priority(body)))
        if verb == "rerun":
            state = await self.service.lookup.state((await self.service.lookup.ids(name))[0])
            environment = read_rerun_environment(self.paths, state.id)
            return {"ids": await self.actions.submit(rerun_request(state, environment.variables))}
        verbs = ", ".join((*JOB_ACTIONS, "priority", "rerun"))
        raise ApiError(ErrorCode.BAD_REQUEST, f"there is no action {verb[:40]!r}", f"use one of {verbs}")

    async def lasts(self) -> bool:
        """True: the user of a state folder keeps its rights."""
        return True


def _user_name() -> str:
    """Name of the user of this process, who alone can sign in."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


class LocalSources:
    """The interface `page_sources.PageSources` for a state folder."""

    def __init__(self, paths: StatePaths) -> None:
        self._paths = paths
        self._findings = JobFindings(paths)

    async def findings(self, details: Json) -> Json:
        """Findings by the output of the job's ranks."""
        return await self._findings.of(details)

    async def checkpoints(self, details: Json) -> Json:
        """Checkpoints by their manifests."""
        return await asyncio.to_thread(read_checkpoints, self._paths, details["id"])

    async def log(
        self, job_id: str, attempt: int | None, ranks: Sequence[int] | None, after: Mapping[str, int]
    ) -> Json:
        """Lines of the files of the ranks."""
        return await asyncio.to_thread(read_log, self._paths, job_id, attempt, ranks, after)

    async def node_history(self, node: str, _visible: Collection[str] | None) -> list[Json]:
        """Attempts by the database of the folder."""
        return await asyncio.to_thread(read_node_history, self._paths, node)
