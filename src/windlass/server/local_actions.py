"""What the daemon does when it is told to: over HTTP, or from the same process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from windlass.backends.local.backend import LocalBackend
from windlass.backends.local.state_store import SubmissionOrigin
from windlass.backends.port import JobEvent
from windlass.controller import Controller
from windlass.core.lifecycle.events import Cancel, Kill
from windlass.core.model.job import Job
from windlass.core.model.resources import CPU
from windlass.core.model.status import TERMINAL
from windlass.server import views
from windlass.server.actions import JOB_ACTIONS, find_obstacle
from windlass.server.durable import check_open, durable
from windlass.server.errors import ApiError, Code
from windlass.server.feed import Feed
from windlass.server.local_data_source import resolve_name
from windlass.server.service import Service
from windlass.server.submission_request import SubmissionRequest, find_repeated, number_jobs
from windlass.server.views import Json


class LocalActions:
    """`orders.Orders` of a state folder. `leave` is called once it was told `down`: whether jobs are to go on."""

    def __init__(
        self, service: Service, controller: Controller, world: LocalBackend, feed: Feed, leave: Callable[[bool], None]
    ) -> None:
        self._service = service
        self._controller = controller
        self._world = world
        self._feed = feed
        self._leave = leave

    # --- jobs --------------------------------------------------------------------------------------

    async def submit(self, handed: SubmissionRequest) -> list[str]:
        """Take jobs in, all or none. Returns an id for each, an array's own for an array."""
        check_open(self._feed)
        if self._service.kind == "run" and not handed.owner:
            raise ApiError(
                Code.NO_DAEMON,
                f"no daemon would look after the job: only a `windlass run` (pid {os.getpid()}) controls this folder",
                "start a daemon with: windlass up -d",
            )
        if handed.again and (known := find_repeated(handed.key, self._controller.states.values(), self._world.store)):
            return known
        batch = number_jobs(
            handed, self._world.reserve(len(handed.submissions)), partial(resolve_name, self._world.store)
        )
        for job in {id(arrival.job): arrival.job for arrival in batch.jobs}.values():
            if no := self._controller.refusal(job):
                raise ApiError(Code.REFUSED, f"{job.name} can never run here: {no.message}", _way_out(job))
        origin = SubmissionOrigin(handed.environment, handed.owner)
        promises = [self._world.inject(arrival, origin) for arrival in batch.jobs]
        await self._durable(promises, undo=[arrival.job_id for arrival in batch.jobs])
        return batch.ids

    async def act(self, verb: str, name: str, body: Mapping[str, Any]) -> Json:
        """Cancel, suspend or resume. `by` says who asked; `now` cuts a cancelled job's grace short."""
        possible, refused = await self._possible(verb, [name])
        if not possible:
            raise refused[0]
        return {"jobs": await self._do(verb, possible, body)}

    async def act_on_all(self, verb: str, body: Mapping[str, Any]) -> Json:
        """The same for several `jobs` at once: the lines of those it was done to, and an error for each other one."""
        names = body.get("jobs")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ApiError(Code.BAD_REQUEST, "jobs is a list of names or ids")
        possible, refused = await self._possible(verb, names)
        lines = await self._do(verb, possible, body) if possible else []
        return {"jobs": lines, "errors": [error.as_json()["error"] for error in refused]}

    async def _possible(self, verb: str, names: Iterable[str]) -> tuple[list[str], list[ApiError]]:
        """The jobs to which this can be done, and an error for each name of which it can be to none."""
        if verb not in JOB_ACTIONS:
            raise ApiError(Code.BAD_REQUEST, f"{verb} is nothing one can do to a job", "cancel, suspend or resume")
        check_open(self._feed)
        possible: dict[str, None] = {}
        refused: list[ApiError] = []
        for name in names:
            try:
                states = [await self._service.state(job_id) for job_id in await self._service.ids(name)]
            except ApiError as error:
                refused.append(error)
                continue
            reasons = {state.id: find_obstacle(verb, state) for state in states}
            able = [job_id for job_id, why_not in reasons.items() if not why_not]
            possible |= dict.fromkeys(able)
            if not able:
                refused.append(ApiError(Code.WRONG_STATE, f"{name} {next(reversed(reasons.values()))}"))
        return list(possible), refused

    async def _do(self, verb: str, job_ids: Sequence[str], body: Mapping[str, Any]) -> list[Json]:
        make_event = Kill if verb == "cancel" and body.get("now") else JOB_ACTIONS[verb]
        event = make_event(str(body.get("by", "")))
        await self._durable([self._world.inject(JobEvent(job_id, event)) for job_id in job_ids])
        states = [await self._service.state(job_id) for job_id in job_ids]
        return [views.job_line(state) for state in states]

    # --- the rest ----------------------------------------------------------------------------------

    async def reserve(self, body: object) -> Json:
        """Keep nodes for somebody, or for nobody, for a time. Returns the reservation's line."""
        from windlass.server import reservation_request  # noqa: PLC0415 - few ask

        check_open(self._feed)
        snapshot, now = self._controller.snapshot(), self._world.now()
        kept = reservation_request.make_reservation(reservation_request.read_reservation(body), snapshot, now)
        living = tuple(other for other in self._world.reservations if other.end > now)
        await durable(self._feed, [self._world.set_reservations((*living, kept))])
        return reservation_request.reservation_line(kept, self._controller.snapshot(), now, ours=True)

    async def unreserve(self, name: str) -> Json:
        """Give the nodes of a reservation back."""
        check_open(self._feed)
        left = tuple(other for other in self._world.reservations if other.name != name)
        if len(left) == len(self._world.reservations):
            by_file = any(other.name == name for other in self._world.cluster.reservations)
            fix = "it is in the cluster file; take it out there" if by_file else "windlass reserve lists what there is"
            raise ApiError(Code.NO_SUCH_JOB, f"no reservation {name[:60]!r} was made with windlass reserve", fix)
        await durable(self._feed, [self._world.set_reservations(left)])
        return {"name": name}

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

    async def _durable(self, promises: list[asyncio.Future[None]], undo: Iterable[str] = ()) -> None:
        """Wait until all is on disk. If the disk will not have it, take it back. Raises ApiError."""
        try:
            await durable(self._feed, promises)
        except ApiError:
            for job_id in undo:
                self._world.inject(JobEvent(job_id, Cancel(by="the daemon: it could not be written down")))
            raise


def _way_out(job: Job) -> str:
    """Of a job that asks for nothing but cores, which it may do without being told to: one for each process."""
    if any(set(role.resources) != {CPU} for role in job.roles):
        return ""
    return "let its processes share the cores that there are: --cpus 0, in a job file cpus: 0"
