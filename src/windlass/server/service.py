"""What each call of the API means, whoever asks: over HTTP, or from the same process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec

import windlass
from windlass.controller import Controller
from windlass.core.commands import Stop
from windlass.core.events import Cancel, Event, Resume, Suspend
from windlass.core.queue import Queue
from windlass.core.status import HOLDING, TERMINAL, JobState, Phase, Target
from windlass.server import views
from windlass.server.arrivals import Handed, arrivals, earlier
from windlass.server.durable import check_open, durable
from windlass.server.errors import ApiError, Code
from windlass.server.feed import Feed
from windlass.server.listed import listed
from windlass.server.planning import Planning
from windlass.server.surroundings import surroundings
from windlass.server.views import Json, Waiting
from windlass.worlds.local.records import UnknownJobError
from windlass.worlds.local.store import Origin
from windlass.worlds.local.world import LocalWorld
from windlass.worlds.port import JobEvent

Filters: TypeAlias = Mapping[str, str]
_LISTED = 1_000
_DIGITS = 18
"""Of any number that is asked for: the database takes 64 bits."""
_HEARTBEAT = 15.0
"""Seconds of silence after which a follower gets a sign of life."""
ACTS: Mapping[str, Callable[[str], Event]] = MappingProxyType({"cancel": Cancel, "suspend": Suspend, "resume": Resume})
"""What one can do to a job."""


class Service:
    """The API over one controller and its world. Methods raise ApiError, WorldError."""

    def __init__(
        self, controller: Controller, world: LocalWorld, feed: Feed, kind: str, leave: Callable[[bool], None]
    ) -> None:
        self._controller = controller
        self._world = world
        self._feed = feed
        self._kind = kind
        self._leave = leave
        self._began = world.now()
        self.planning = Planning(controller, world, feed)

    # --- asking ------------------------------------------------------------------------------------

    def ping(self) -> Json:
        """Who answers, and for what cluster."""
        cluster = self._world.cluster
        phases = [state.status.phase for state in self._controller.states.values()]
        return {
            "version": windlass.__version__,
            "pid": os.getpid(),
            "kind": self._kind,
            "state": str(self._world.paths.root),
            "since": self._began,
            "now": self._world.now(),
            "cluster": cluster.text,
            "nodes": len(cluster.nodes),
            "capacity": views.capacity(cluster.nodes),
            "waiting": phases.count(Phase.QUEUED),
            "holding": sum(phase in HOLDING for phase in phases),
            "trouble": self._feed.trouble,
        }

    def jobs(self, filters: Filters) -> list[Json]:
        """Jobs that have not ended: those that hold nodes, then those that wait, next first, then the rest.

        Filters: those of `listed`, and limit. Those that have ended come last, the latest first.
        """
        wanted, limit = listed(filters), _number(filters, "limit", _LISTED)
        positions = self._positions()
        chosen = [state for state in self._controller.states.values() if wanted.has(state)]
        chosen.sort(key=lambda state: _rank(state, positions))
        query = wanted.query(TERMINAL) if wanted.ended else None
        if query and len(chosen) < limit:
            known = {state.id for state in chosen}
            ended = self._world.store.jobs(**query, limit=limit)
            chosen += [state for state in ended if state.id not in known]
        return [views.line(state, self._waiting(state, positions)) for state in chosen[:limit]]

    def job(self, name: str) -> Json:
        """The whole story of a job; of an array, its members' lines."""
        ids = self.ids(name)
        positions = self._positions()
        if len(ids) > 1:
            members = [views.line(state, self._waiting(state, positions)) for state in map(self._state, ids)]
            return {"id": name, "members": members}
        state = self._state(ids[0])
        store = self._world.store
        tasks = store.tasks(state.id)
        told = surroundings(state.job, tasks, self._world.cluster)
        return views.story(state, self._waiting(state, positions), tasks, store.transitions(state.id), told)

    async def why(self, name: str, what_if: str = "") -> Json:
        """Why it waits, in full; for a job that does not wait, its line and nothing more.

        `what_if`: as if it had asked for that instead. Far down a long queue this takes seconds, so it is worked out
        beside the loop; a snapshot does not change.
        """
        states = [self._state(job_id) for job_id in self.ids(name)]
        state = next((state for state in states if _waits(state)), states[0])
        line = views.line(state, self._waiting(state, self._positions()))
        answer: Json = {"job": line, "now": self._world.now()}
        if what_if and not _waits(state):
            raise ApiError(Code.WRONG_STATE, f"{state.id} does not wait: it is {state.status.phase.value}")
        if _waits(state):
            from windlass.server import asking  # noqa: PLC0415 - a `run` of 200 ms is never asked why

            snapshot, now = self._controller.snapshot(), self._world.now()
            job = asking.supposed(state, what_if, snapshot) if what_if else None
            answer |= await asyncio.to_thread(asking.explained, snapshot, state, job, now)
            answer["explanation"] = asking.with_one_start(answer["explanation"], None if what_if else line)
        return answer

    async def why_all(self) -> Json:
        """All that wait, next first, each with its reason and, of the first few, what would start now instead."""
        from windlass.server import asking  # noqa: PLC0415 - see above

        positions = self._positions()
        states = [state for state in self._controller.states.values() if _waits(state)]
        states.sort(key=lambda state: _rank(state, positions))
        lines = [views.line(state, self._waiting(state, positions)) for state in states[:_LISTED]]
        snapshot, now = self._controller.snapshot(), self._world.now()
        return {"jobs": await asyncio.to_thread(asking.with_alternatives, snapshot, lines, now), "now": now}

    def nodes(self) -> list[Json]:
        """Every node."""
        snapshot, now = self._controller.snapshot(), self._world.now()
        running, reserved = snapshot.running.values(), snapshot.reservations
        return [views.node(node, running, reserved, now) for node in snapshot.table.nodes]

    def queues(self) -> list[Json]:
        """Every queue that is declared or used."""
        snapshot = self._controller.snapshot()
        states = list(self._controller.states.values())
        named = {state.job.queue: Queue(state.job.queue) for state in states} | dict(snapshot.queues)
        return [views.queue(queue, snapshot.held.get(name, {}), states) for name, queue in sorted(named.items())]

    def history(self, filters: Filters) -> list[Json]:
        """Jobs that have ended, the last first. Filters: name, user, since (ms), limit."""
        store = self._world.store
        states = store.history(
            name=filters.get("name", ""),
            user=filters.get("user", ""),
            since=_number(filters, "since", 0),
            limit=_number(filters, "limit", _LISTED),
        )
        return [views.line(state) for state in states]

    def ids(self, name: str) -> list[str]:
        """The jobs that a name or an id means: one, or an array's members."""
        try:
            found = self._world.store.resolve(name)
        except UnknownJobError as error:
            raise ApiError(Code.NO_SUCH_JOB, str(error)) from None
        return [found] if self._world.store.job(found) else self._world.store.members(found)

    # --- telling -----------------------------------------------------------------------------------

    async def submit(self, handed: Handed) -> list[str]:
        """Take jobs in, all or none. Returns an id for each, an array's own for an array."""
        check_open(self._feed)
        if self._kind == "run" and not handed.owner:
            raise ApiError(
                Code.NO_DAEMON,
                f"no daemon would look after the job: only a `windlass run` (pid {os.getpid()}) controls this folder",
                "start a daemon with: windlass up -d",
            )
        if handed.again and (known := earlier(handed.key, self._controller.states.values(), self._world.store)):
            return known
        batch = arrivals(handed, self._world.reserve(len(handed.submissions)), self._known)
        for job in {id(arrival.job): arrival.job for arrival in batch.jobs}.values():
            if no := self._controller.refusal(job):
                raise ApiError(Code.REFUSED, f"{job.name} can never run here: {no.message}")
        origin = Origin(handed.environment, handed.owner)
        promises = [self._world.inject(arrival, origin) for arrival in batch.jobs]
        await self._durable(promises, undo=[arrival.job_id for arrival in batch.jobs])
        return batch.ids

    async def act(self, verb: str, name: str, body: Mapping[str, Any]) -> Json:
        """Cancel, suspend or resume. `by` says who asked; `now` cuts a cancelled job's grace short."""
        possible, refused = self._possible(verb, [name])
        if not possible:
            raise refused[0]
        return {"jobs": await self._do(verb, possible, body)}

    async def act_on_all(self, verb: str, body: Mapping[str, Any]) -> Json:
        """The same for several `jobs` at once: the lines of those it was done to, and an error for each other one."""
        names = body.get("jobs")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ApiError(Code.BAD_REQUEST, "jobs is a list of names or ids")
        possible, refused = self._possible(verb, names)
        lines = await self._do(verb, possible, body) if possible else []
        return {"jobs": lines, "errors": [error.as_json()["error"] for error in refused]}

    def _possible(self, verb: str, names: Iterable[str]) -> tuple[list[str], list[ApiError]]:
        """The jobs to which this can be done, and an error for each name of which it can be to none."""
        if verb not in ACTS:
            raise ApiError(Code.BAD_REQUEST, f"{verb} is nothing one can do to a job", "cancel, suspend or resume")
        check_open(self._feed)
        possible: dict[str, None] = {}
        refused: list[ApiError] = []
        for name in names:
            try:
                reasons = {job_id: _hindrance(verb, self._state(job_id)) for job_id in self.ids(name)}
            except ApiError as error:
                refused.append(error)
                continue
            able = [job_id for job_id, why_not in reasons.items() if not why_not]
            possible |= dict.fromkeys(able)
            if not able:
                refused.append(ApiError(Code.WRONG_STATE, f"{name} {next(reversed(reasons.values()))}"))
        return list(possible), refused

    async def _do(self, verb: str, job_ids: Sequence[str], body: Mapping[str, Any]) -> list[Json]:
        event = ACTS[verb](str(body.get("by", "")))
        await self._durable([self._world.inject(JobEvent(job_id, event)) for job_id in job_ids])
        states = [self._state(job_id) for job_id in job_ids]
        if verb == "cancel" and body.get("now"):
            self._world.perform([Stop(s.id, s.status.generation, 0) for s in states if not s.status.gone])
        return [views.line(state) for state in states]

    async def down(self, body: Mapping[str, Any]) -> Json:
        """Leave. Jobs go on with `keep_jobs`, else they are cancelled first and waited for."""
        keep = bool(body.get("keep_jobs"))
        living = [state.id for state in self._controller.states.values() if state.status.phase not in TERMINAL]
        if not keep and living:
            await self._cancel_all(living)
        asyncio.get_running_loop().call_later(0.05, self._leave, keep)  # once this answer is out
        return {"pid": os.getpid(), "jobs": living}

    async def _cancel_all(self, living: Iterable[str]) -> None:
        event = Cancel(by="windlass down")
        await self._durable([self._world.inject(JobEvent(job_id, event)) for job_id in living])
        news = self._feed.join()
        try:
            while self._world.living():
                news.clear()
                await news.wait()
        finally:
            self._feed.leave(news)

    # --- following ---------------------------------------------------------------------------------

    def follow(self, names: str, after: int) -> AsyncIterator[Json]:
        """What happens to jobs and arrays (several by commas, "" means all), from event `after` on, until all ended."""
        return self._follow({job_id for name in names.split(",") if name for job_id in self.ids(name)}, after)

    async def _follow(self, ids: set[str], after: int) -> AsyncIterator[Json]:
        news = self._feed.join()
        told: dict[str, tuple[object, int]] = {}
        ended: set[str] = set()
        try:
            while not self._feed.closed:
                news.clear()
                for number, transition in self._world.store.events(after, ids):
                    after = number
                    yield {"type": "transition", "number": number, **msgspec.to_builtins(transition)}
                for event in self._verdicts(ids, told):
                    yield event
                for job_id in sorted(ids - ended):
                    state = self._state(job_id)
                    if state.status.phase in TERMINAL:
                        ended.add(job_id)
                        yield {"type": "end", "job": views.line(state)}
                if ids and ended == ids:
                    yield {"type": "all ended"}
                    return
                if not await _within(news, _HEARTBEAT):
                    yield {"type": "quiet"}
        finally:
            self._feed.leave(news)

    def _verdicts(self, ids: set[str], told: dict[str, tuple[object, int]]) -> Iterable[Json]:
        """The reasons of those that wait, where they have changed."""
        waiting = [job_id for job_id in ids if (s := self._controller.states.get(job_id)) and _waits(s)]
        positions = self._positions() if waiting else {}
        for job_id in waiting:
            state = self._controller.states[job_id]
            line = views.line(state, self._waiting(state, positions))
            news = (line["message"], line["position"])
            if told.get(job_id) != news:
                told[job_id] = news
                yield {"type": "verdict", "job": line}

    # --- plumbing ----------------------------------------------------------------------------------

    async def _durable(self, promises: list[asyncio.Future[None]], undo: Iterable[str] = ()) -> None:
        """Wait until all is on disk. If the disk will not have it, take it back. Raises ApiError."""
        try:
            await durable(self._feed, promises)
        except ApiError:
            for job_id in undo:
                self._world.inject(JobEvent(job_id, Cancel(by="the daemon: it could not be written down")))
            raise

    def _known(self, name: str) -> list[str]:
        """The jobs an `after` means. Raises ApiError."""
        return self.ids(name)

    def _state(self, job_id: str) -> JobState:
        state = self._controller.states.get(job_id) or self._world.store.job(job_id)
        if state is None:
            raise ApiError(Code.NO_SUCH_JOB, f"{job_id} is no longer on record")
        return state

    def _positions(self) -> dict[str, int]:
        return {job_id: place for place, job_id in enumerate(self._controller.plan.order, start=1)}

    def _waiting(self, state: JobState, positions: Mapping[str, int]) -> Waiting:
        if not _waits(state):
            return views.NOT_WAITING
        return Waiting(self._controller.plan.verdicts.get(state.id), positions.get(state.id, 0))


def _waits(state: JobState) -> bool:
    return state.status.phase is Phase.QUEUED


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


def _hindrance(verb: str, state: JobState) -> str:
    """Why this cannot be done to a job now, "" if it can."""
    status = state.status
    if status.phase in TERMINAL:
        return f"has ended already ({status.phase.value})"
    if verb == "resume" and status.phase is not Phase.SUSPENDED and status.target is not Target.SUSPEND:
        return f"is not suspended but {status.phase.value}"
    if verb == "suspend" and status.phase is Phase.SUSPENDED:
        return "is suspended already"
    return ""


async def _within(event: asyncio.Event, seconds: float) -> bool:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return False
    return True
