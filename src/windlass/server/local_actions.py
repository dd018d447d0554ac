"""Actions of a state folder's controller: submit, cancel, suspend, resume, reserve, end the daemon."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from windlass.backends.local.backend import LocalBackend
from windlass.backends.local.state_store import SubmissionOrigin
from windlass.backends.port import JobChanged, JobEvent
from windlass.controller.controller import Controller
from windlass.core.lifecycle.events import Cancel, Kill
from windlass.core.model.job import Job
from windlass.core.model.reasons import Verdict
from windlass.core.model.resources import CPU
from windlass.core.model.status import TERMINAL
from windlass.server.actions import JOB_ACTIONS, find_obstacle
from windlass.server.dashboard.listener import DashboardListener
from windlass.server.errors import ApiError, ErrorCode
from windlass.server.feed import EventFeed
from windlass.server.job_lines import Json, job_line
from windlass.server.job_update import JobUpdate, updated_job
from windlass.server.local_data_source import resolve_name
from windlass.server.schedule_actions import ScheduleActions
from windlass.server.service import Service
from windlass.server.submission_request import SubmissionRequest, find_repeated, number_jobs

_PORTS = 1 << 16


class LocalActions:
    """The interface `actions.Actions` for a state folder. `leave(keep_jobs)` ends the daemon."""

    def __init__(
        self,
        service: Service,
        controller: Controller,
        backend: LocalBackend,
        feed: EventFeed,
        leave: Callable[[bool], None],
        dashboard: DashboardListener,
        schedules: ScheduleActions,
    ) -> None:
        self._service = service
        self._controller = controller
        self._backend = backend
        self._feed = feed
        self._leave = leave
        self._dashboard = dashboard
        self._schedules = schedules

    # --- jobs --------------------------------------------------------------------------------------

    async def submit(self, request: SubmissionRequest) -> list[str]:
        """Accepts jobs, all or none. Returns an id for each submission, one for an array, or the name of a schedule."""
        _check_writable(self._feed)
        if self._service.kind == "run" and not request.owner:
            raise ApiError(
                ErrorCode.NO_DAEMON,
                f"no daemon would keep the job: only a `windlass run` (pid {os.getpid()}) controls this folder",
                "start a daemon with: windlass up -d",
            )
        if any(submission.schedule for submission in request.submissions):
            return await self._create_schedules(request)
        if request.again and (
            known := find_repeated(request.key, self._controller.states.values(), self._backend.store)
        ):
            return known
        find = partial(resolve_name, self._backend.store)
        living = [state for state in self._controller.states.values() if state.status.phase not in TERMINAL]
        batch = number_jobs(request, self._backend.next_number, find, living)
        for job in {id(arrival.job): arrival.job for arrival in batch.jobs}.values():
            if no := self._controller.refusal(job):
                raise ApiError(ErrorCode.REFUSED, f"{job.name} can never run here: {no.message}", _suggest_fix(job, no))
        self._backend.reserve(len(request.submissions))
        origin = SubmissionOrigin(request.environment, request.owner)
        promises = [self._backend.inject(arrival, origin) for arrival in batch.jobs]
        await self._commit(promises, undo=[arrival.job_id for arrival in batch.jobs])
        return batch.ids

    async def _create_schedules(self, request: SubmissionRequest) -> list[str]:
        if self._service.kind == "run":
            message = "a schedule needs a daemon, and a `windlass run` ends with its job"
            raise ApiError(ErrorCode.NO_DAEMON, message, "start a daemon with: windlass up -d")
        return await self._schedules.create(request)

    async def schedules(self) -> list[Json]:
        """All schedules, by name."""
        return self._schedules.lines()

    async def run_schedule(self, name: str) -> list[str]:
        """Starts a run of a schedule at once. Returns its id."""
        _check_writable(self._feed)
        return await self._schedules.start_now(name)

    async def act(self, verb: str, name: str, body: Mapping[str, Any]) -> Json:
        """Cancels, suspends or resumes a job. `by`: the user's name; `now`: cancel without grace."""
        allowed, refused = await self._find_allowed(verb, [name])
        if not allowed:
            raise refused[0]
        return {"jobs": await self._apply(verb, allowed, body)}

    async def update(self, name: str, update: JobUpdate) -> Json:
        """Changes priority, time limit or begin time of a job, or of an array's members that have not ended.

        Returns the lines. One that holds nodes can only get lower ones.
        """
        _check_writable(self._feed)
        states = [await self._service.lookup.state(job_id) for job_id in await self._service.lookup.ids(name)]
        living = [state for state in states if state.status.phase not in TERMINAL] or states[:1]
        jobs = [updated_job(state, update) for state in living]
        for state, changed in zip(living, jobs, strict=True):
            if no := self._controller.refusal(changed, state.job):
                raise ApiError(ErrorCode.REFUSED, f"{state.id} cannot be changed so: {no.message}")
        changes = [JobChanged(state.id, changed) for state, changed in zip(living, jobs, strict=True)]
        await self._commit([self._backend.inject(each) for each in changes])
        return {"jobs": [job_line(await self._service.lookup.state(state.id)) for state in living]}

    async def act_on_all(self, verb: str, body: Mapping[str, Any]) -> Json:
        """Cancels, suspends or resumes several `jobs`, which may be schedules.

        Returns the lines of the changed jobs and schedules, and an error for each other.
        """
        names = body.get("jobs")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ApiError(ErrorCode.BAD_REQUEST, "jobs must be a list of names or ids")
        allowed, refused = await self._find_allowed(verb, [name for name in names if not self._schedules.has(name)])
        schedules = []
        for name in filter(self._schedules.has, names):
            try:
                schedules.append(await self._schedules.act(verb, name))
            except ApiError as error:
                refused.append(error)
        lines = await self._apply(verb, allowed, body) if allowed else []
        errors = [error.as_json()["error"] for error in refused]
        return {"jobs": lines, "schedules": schedules, "errors": errors}

    async def _find_allowed(self, verb: str, names: Iterable[str]) -> tuple[list[str], list[ApiError]]:
        """Ids of the jobs whose state allows the action, and an error for each name without such a job."""
        if verb not in JOB_ACTIONS:
            raise ApiError(ErrorCode.BAD_REQUEST, f"{verb} is not an action on jobs", "use cancel, suspend or resume")
        _check_writable(self._feed)
        allowed: dict[str, None] = {}
        refused: list[ApiError] = []
        for name in names:
            try:
                states = [await self._service.lookup.state(job_id) for job_id in await self._service.lookup.ids(name)]
            except ApiError as error:
                refused.append(error)
                continue
            reasons = {state.id: find_obstacle(verb, state) for state in states}
            able = [job_id for job_id, reason in reasons.items() if not reason]
            allowed |= dict.fromkeys(able)
            if not able:
                refused.append(ApiError(ErrorCode.WRONG_STATE, f"{name} {next(reversed(reasons.values()))}"))
        return list(allowed), refused

    async def _apply(self, verb: str, job_ids: Sequence[str], body: Mapping[str, Any]) -> list[Json]:
        make_event = Kill if verb == "cancel" and body.get("now") else JOB_ACTIONS[verb]
        event = make_event(str(body.get("by", "")))
        await self._commit([self._backend.inject(JobEvent(job_id, event)) for job_id in job_ids])
        states = [await self._service.lookup.state(job_id) for job_id in job_ids]
        return [job_line(state) for state in states]

    # --- reservations and the daemon ----------------------------------------------------------------------------------

    async def reserve(self, body: object) -> Json:
        """Reserves nodes for queues or users, or for maintenance. Returns the reservation's line."""
        from windlass.server import reservation_request  # noqa: PLC0415 - rarely needed

        _check_writable(self._feed)
        snapshot, now = self._controller.snapshot(), self._backend.now()
        reservation = reservation_request.make_reservation(reservation_request.read_reservation(body), snapshot, now)
        living = tuple(other for other in self._backend.reservations if other.end > now)
        await _wait_until_durable(self._feed, [self._backend.set_reservations((*living, reservation))])
        return reservation_request.reservation_line(reservation, self._controller.snapshot(), now, ours=True)

    async def unreserve(self, name: str) -> Json:
        """Deletes a reservation."""
        _check_writable(self._feed)
        left = tuple(other for other in self._backend.reservations if other.name != name)
        if len(left) == len(self._backend.reservations):
            by_file = any(other.name == name for other in self._backend.cluster.reservations)
            fix = "it is in the cluster file; remove it there" if by_file else "windlass reserve lists all reservations"
            raise ApiError(ErrorCode.NO_SUCH_JOB, f"no reservation {name[:60]!r} was made with windlass reserve", fix)
        await _wait_until_durable(self._feed, [self._backend.set_reservations(left)])
        return {"name": name}

    async def open_dashboard(self, body: Mapping[str, Any]) -> Json:
        """A new one-time link to the dashboard.

        `port`: of the first link, when the server starts; 0: any; null: that of the last dashboard.
        """
        port = body.get("port")
        if port is not None and (not isinstance(port, int) or not 0 <= port < _PORTS):
            raise ApiError(ErrorCode.BAD_REQUEST, f"port is a number from 0 to {_PORTS - 1}")
        return {"url": await self._dashboard.open(self, port, may_act=body.get("may_act") is True)}

    async def down(self, body: Mapping[str, Any]) -> Json:
        """Ends the daemon. With `keep_jobs` jobs go on; else they are cancelled and waited for first."""
        keep = bool(body.get("keep_jobs"))
        await self._schedules.pause()
        living = [state.id for state in self._controller.states.values() if state.status.phase not in TERMINAL]
        try:
            if not keep and living:
                await self._cancel_all(living)
        except BaseException:
            self._schedules.resume()
            raise
        asyncio.get_running_loop().call_later(0.05, self._leave, keep)  # after this answer is sent
        return {"pid": os.getpid(), "jobs": living}

    async def _cancel_all(self, living: Iterable[str]) -> None:
        event = Cancel(by="windlass down")
        await self._commit([self._backend.inject(JobEvent(job_id, event)) for job_id in living])
        news = self._feed.join()
        try:
            while self._backend.has_living_jobs():
                news.clear()
                await news.wait()
        finally:
            self._feed.leave(news)

    async def _commit(self, promises: list[asyncio.Future[None]], undo: Iterable[str] = ()) -> None:
        """Waits until all is on disk. If that fails, cancels the jobs of `undo`. Raises ApiError."""
        try:
            await _wait_until_durable(self._feed, promises)
        except ApiError:
            for job_id in undo:
                self._backend.inject(JobEvent(job_id, Cancel(by="the daemon: the job could not be saved")))
            raise


def _suggest_fix(job: Job, no: Verdict) -> str:
    """Fix for a job with too many cores that requests nothing else, perhaps by default: one core for each process."""
    if no.resource != CPU or any(set(role.resources) != {CPU} for role in job.roles):
        return ""
    return "let its processes share the existing cores: --cpus 0, in a job file cpus: 0"


def _check_writable(feed: EventFeed) -> None:
    """Checks that the controller can commit. Raises ApiError."""
    if feed.closed:
        raise ApiError(ErrorCode.NO_DAEMON, "the daemon is ending", "try again")
    if feed.trouble:
        raise ApiError(ErrorCode.DISK, feed.trouble)


async def _wait_until_durable(feed: EventFeed, promises: Sequence[asyncio.Future[None]]) -> None:
    """Waits until all promises are fulfilled. Raises ApiError if a commit fails meanwhile."""
    news = feed.join()
    promises[-1].add_done_callback(lambda _done: news.set())
    try:
        while not all(promise.done() for promise in promises):
            news.clear()
            _check_writable(feed)
            await news.wait()
    finally:
        feed.leave(news)
