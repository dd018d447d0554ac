"""Pages of one user of a cluster: each view by the user's rights, without names of namespaces that are not shown."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from windlass.backends.kubernetes.status.redaction import redact
from windlass.backends.port import BackendError
from windlass.core.model.status import TERMINAL, JobState
from windlass.server.actions import JOB_ACTIONS, find_obstacle
from windlass.server.dashboard.pages import Filters, PageViews
from windlass.server.dashboard.simulation import Simulation
from windlass.server.dashboard.view import View
from windlass.server.errors import ApiError, ErrorCode
from windlass.server.job_filter import is_in_namespace
from windlass.server.job_update import read_priority
from windlass.server.operator.dashboard.cluster_checkpoints import checkpoint_place
from windlass.server.operator.dashboard.object_actions import ObjectActions
from windlass.server.operator.dashboard.user_sessions import UserSession
from windlass.server.operator.queries.authorization import Authorizer, query_right
from windlass.server.operator.queries.fair_turns import FairTurns, limit_key

Json = dict[str, Any]
_OF_ROWS = ("overview", "queue", "time_axis", "history", "schedules")
"""Views with rows of jobs or schedules, which leave out those of namespaces that the user may not list."""
_OF_CLUSTER: Mapping[str, str] = MappingProxyType(
    {
        "nodes": "nodes",
        "node_use": "nodes",
        "node": "nodes",
        "share": "shares",
        "choices": "queues",
        "course": "queues",
        "node_course": "nodes",
    }
)
"""Views of the cluster, and the resource that a user of them may list."""
_OF_JOB: Mapping[str, str] = MappingProxyType(
    {
        "job": "jobs",
        "metrics": "jobs",
        "checkpoints": "jobs",
        "rerun": "jobs",
        "refusals": "jobs",
        "slowness": "jobs",
        "why": "jobs/why",
        "findings": "jobs/why",
    }
)
"""Views of one job, and the resource that a user of them may get."""


_MAX_ROWS, _DIGITS = 10_000, 5
_WAIT_S = 20.0
"""Longest wait for the turn of an answer."""
_MEASURED = ("course", "node_course", "metrics")
"""Views of recorded telemetry, which an operator does not record: Prometheus does."""


@dataclass(frozen=True, slots=True)
class AnswerTurns:
    """Limits of answers at once: for all users, and for one. Logs and changes wait for the network, views do not."""

    views: FairTurns = field(default_factory=partial(FairTurns, 4, 2))
    """Users cannot take all threads from the controller."""
    logs: FairTurns = field(default_factory=partial(FairTurns, 8, 2))
    actions: FairTurns = field(default_factory=partial(FairTurns, 8, 2))


@dataclass(frozen=True, slots=True)
class ClusterPages:
    """The interface `app.Pages` for one user. A view without an entry in the tables of rights is not shown.

    `hidden`: returns the known namespaces that the user may not see now; `term`: key of the leadership term, whose
    versions are its own; `turns`: limits of answers at once; `is_unchanged`: whether session and rights are still the
    same.
    """

    session: UserSession
    views: PageViews
    hidden: Callable[[], Awaitable[Collection[str]]]
    authorizer: Authorizer
    actions: ObjectActions
    term: str
    turns: AnswerTurns
    is_unchanged: Callable[[], Awaitable[bool]]

    @property
    def audience(self) -> str:
        """Key of what the user may read in this term."""
        return f"{self.term}{self.views.audience.key}"

    @property
    def visitor(self) -> str:
        """Key of the user's limits: the ServiceAccounts of one namespace count as one."""
        return limit_key(self.session.user)

    @property
    def simulation(self) -> Simulation:
        """Raises ApiError: a simulation uses all jobs of the cluster, and a core of the operator."""
        message = "the dashboard of a cluster simulates nothing"
        raise ApiError(ErrorCode.BAD_REQUEST, message, "save a snapshot with windlass snapshot, and simulate it")

    async def about(self) -> Json:
        """Version, cluster and views, the user's name, and whether the user may see the jobs of any namespace."""
        about = self.views.about()
        if not self.views.audience.may_read("status"):
            about = {**about, "cluster": "", "state": "", "trouble": ""}
        namespaces = self.views.audience.namespaces
        sees_jobs = namespaces is None or bool(namespaces)
        user = {"user": self.session.user.name, "sees_jobs": sees_jobs}
        return {**redact(about, await self.hidden()), **user, "views": [*_OF_ROWS, *_OF_CLUSTER]}

    async def find(self, view: str, name: str, filters: Filters) -> View | None:
        """A view by the parameters of a request, after a check of the right to it. Raises ApiError, BackendError."""
        if view in _OF_JOB and name:
            await self._require_job(_OF_JOB[view], name)
        elif view in _OF_CLUSTER:
            await self.authorizer.require(self.session.user, query_right("list", _OF_CLUSTER[view]))
        elif view not in _OF_ROWS or name:
            return None
        if view == "refusals":
            refusals = await self._redacted(name, partial(self._find_refusals, name))
            found: View | None = View((view, name, *refusals.items()), partial(_give, refusals))
        elif view == "rerun":
            found = View((view, name), partial(self._describe_rerun, name))
        elif view in _MEASURED:
            found = View((view,), _find_no_series)
        else:
            found = self.views.find(view, name, _bounded(filters))
        of_job, turn = name if view in _OF_JOB else "", partial(self._take, self.turns.views)
        return found and replace(found, produce=partial(self._redacted, of_job, found.produce), turn=turn)

    async def log(self, name: str, filters: Filters) -> Json:
        """A piece of a job's output."""
        await self._require_job("jobs/log", name)
        return dict(await self._answer(self.turns.logs, name, partial(self.views.log, name, filters)))

    async def act(self, verb: str, name: str, body: Mapping[str, Any]) -> Json:
        """Cancels, suspends or resumes a job or an array; changes the priority of a job, or runs it again."""
        changes: dict[str, Callable[[], Awaitable[Json]]] = {
            **{each: partial(self._change, each, name) for each in JOB_ACTIONS},
            "priority": partial(self._set_priority, name, body),
            "rerun": partial(self._rerun, name),
        }
        if verb not in changes:
            message = f"the dashboard of a cluster has no action {verb[:40]!r}"
            raise ApiError(ErrorCode.BAD_REQUEST, message, f"use one of {', '.join(changes)}")
        await self._require_job("jobs", name)
        return dict(await self._answer(self.turns.actions, name, changes[verb]))

    async def _set_priority(self, name: str, body: Mapping[str, Any]) -> Json:
        state = await self._find_state(name)
        await self.actions.set_priority(self.session, state.id, read_priority(body))
        return {"jobs": [{"id": state.id}]}

    async def _rerun(self, name: str) -> Json:
        state = await self._find_state(name)
        if state.status.phase not in TERMINAL:
            raise ApiError(ErrorCode.WRONG_STATE, f"{state.id} has not ended", "wait for its end, or cancel it first")
        return {"ids": [await self.actions.rerun(self.session, state.id)]}

    async def _describe_rerun(self, name: str) -> Json:
        """The place of checkpoints that a second run shares with the first, by its object."""
        state = await self._find_state(name)
        return {"is_object": True, "checkpoints": checkpoint_place(state.job, self.actions.backend.jobs.get(state.id))}

    async def _find_refusals(self, name: str) -> dict[str, str]:
        return await self.actions.refusals(self.session.user, await self._find_id(name))

    async def _find_state(self, name: str) -> JobState:
        return await self.views.service.lookup.state(await self._find_id(name))

    async def _find_id(self, name: str) -> str:
        return (await self.views.service.lookup.ids(name))[0]

    async def _change(self, verb: str, name: str) -> Json:
        states = await self.views.service.lookup.states(name)
        obstacles = {state.id: find_obstacle(verb, state) for state in states}
        possible = [job_id for job_id, obstacle in obstacles.items() if not obstacle]
        if not possible:
            raise ApiError(ErrorCode.WRONG_STATE, f"{name} {obstacles[states[-1].id]}")
        for job_id in possible:
            await self.actions.apply(self.session, verb, job_id)
        return {"jobs": [{"id": job_id} for job_id in possible]}

    async def lasts(self) -> bool:
        """Whether the user is signed in and may read the same; False too if the API server does not answer."""
        try:
            return await self.is_unchanged()
        except (ApiError, BackendError):
            return False

    async def _require_job(self, resource: str, name: str) -> None:
        """Raises ApiError if the user may not get a job, whether or not there is one of this name."""
        namespace, slash, rest = name.partition("/")
        if not slash or not namespace or not rest:
            message = f"{name[:200]!r} names no job of a cluster"
            raise ApiError(ErrorCode.BAD_REQUEST, message, "name it with its namespace: team/digits")
        right = query_right("get", resource, namespace, rest.replace("/", ":"))
        await self.authorizer.require(self.session.user, right)

    async def _answer(self, turns: FairTurns, name: str, produce: Callable[[], Awaitable[Any]]) -> Any:
        """An answer that waits for its turn. `name`: of the job that it is about."""
        async with self._take(turns):
            return await self._redacted(name, produce)

    def _take(self, turns: FairTurns) -> AbstractAsyncContextManager[None]:
        return turns.take(limit_key(self.session.user), _WAIT_S)

    async def _redacted(self, name: str, produce: Callable[[], Awaitable[Any]]) -> Any:
        """An answer, or a refusal, without names of namespaces that are hidden before or after its computation."""
        hidden = set(await self.hidden())
        try:
            if name:
                await self._check_namespace(name)
            found = await produce()
            return await asyncio.to_thread(redact, found, hidden.union(await self.hidden()))
        except ApiError as error:
            hidden.update(await self.hidden())
            message, fix = (str(redact(text, hidden)) for text in (error.message, error.fix))
            raise ApiError(error.code, message, fix) from None

    async def _check_namespace(self, name: str) -> None:
        """Raises ApiError unless a name means jobs of its own namespace: a kind may have the name of a namespace."""
        namespace = name.partition("/")[0]
        ids = await self.views.service.lookup.ids(name)
        if not all(is_in_namespace(each, namespace) for each in ids):
            raise ApiError(ErrorCode.NO_SUCH_JOB, f"no job of namespace {namespace} is called {name[:200]!r}")


def _bounded(filters: Filters) -> dict[str, str]:
    """The filters with at most `_MAX_ROWS` rows, and as many before them: a user cannot ask for all of history."""
    numbers = {name: text for name, text in filters.items() if name in ("limit", "offset") and text.isdecimal()}
    too_large = {name: str(_MAX_ROWS) for name, text in numbers.items() if len(text) > _DIGITS or int(text) > _MAX_ROWS}
    return {**filters, **too_large}


async def _give(answer: Json) -> Json:
    return answer


async def _find_no_series() -> Json:
    return {"statistic": "mean", "series": []}
