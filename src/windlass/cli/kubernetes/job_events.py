"""What happens to jobs of a cluster, as it happens: watches of their objects, told as a daemon tells its events."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from windlass.backends.kubernetes.client.object_cache import Change
from windlass.backends.kubernetes.client.reflector import reflect
from windlass.backends.kubernetes.client.resources import Resource
from windlass.cli.kubernetes.api_session import ApiSession
from windlass.cli.kubernetes.job_objects import JobObject
from windlass.cli.kubernetes.operator_client import OperatorClient
from windlass.core.model.status import CANCELLED, TERMINAL, JobState, Phase
from windlass.server import views
from windlass.server.errors import ApiError

Json = dict[str, Any]
_BETWEEN_QUESTIONS = 1.0
"""Seconds between two questions to the operator, why a job waits."""
_STARTED = (Phase.ADMITTED, Phase.RUNNING, Phase.SUCCEEDED, Phase.FAILED)


@dataclass(slots=True)
class ReportedState:
    """How far a job's story has been told."""

    phase: Phase = Phase.CREATED
    generation: int = 0
    ended: bool = False
    said: tuple[object, object] = ("", 0)
    """Why it waits, and where in the queue."""


class JobEvents:
    """Events of some jobs: "transition", "verdict", "end" and "all ended". `poll` waits for them.

    `seen` remembers what was told: who follows again hears what is new.
    """

    def __init__(
        self, reach: ApiSession, operator: OperatorClient, jobs: Sequence[JobObject], seen: dict[str, ReportedState]
    ) -> None:
        self.after = 0
        self._reach, self._operator = reach, operator
        self._seen = seen
        for job in jobs:
            seen.setdefault(job.id, ReportedState()).ended = False
        self._waiting: dict[str, JobState] = {}
        self._events: list[Json] = []
        self._news = asyncio.Event()
        self._asked = 0.0
        self._tasks = [reach.begin(self._watch(*scope, of)) for scope, of in _scopes(jobs).items()]

    def poll(self, timeout: float) -> list[Json]:
        """Events that have come, after at most `timeout` seconds. Raises ApiError if the cluster refuses to tell."""
        self._ask_why()
        if not self._events:
            self._reach.rest(timeout, self._news)
        for task in self._tasks:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                self._reach.do(_raise(error))
        self._news.clear()
        events, self._events = self._events, []
        return events

    def close(self) -> None:
        """Stop listening."""
        for task in self._tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            self._reach.rest(0)

    # --- objects -----------------------------------------------------------------------------------

    async def _watch(self, resource: Resource, namespace: str, jobs: Sequence[JobObject]) -> None:
        only = f"metadata.name={jobs[0].name}" if len(jobs) == 1 else None
        wanted = {job.manifest["metadata"]["uid"] for job in jobs}

        def apply(changes: Sequence[Change[Json]]) -> None:
            for change in changes:
                if change.object["metadata"]["uid"] in wanted:
                    self._hear(JobObject(resource, change.object), gone=change.kind == "deleted")

        def synced() -> None:
            self._news.set()

        await reflect(
            self._reach.connection,
            resource,
            decode=json.loads,
            apply=apply,
            synced=synced,
            namespace=namespace,
            fields=only,
        )

    def _hear(self, job: JobObject, *, gone: bool) -> None:
        seen = self._seen[job.id]
        if seen.ended:
            return
        state = job.state()
        self._events += new_events(seen, state)
        if state.status.phase is Phase.QUEUED:
            self._waiting[job.id] = state
        else:
            self._waiting.pop(job.id, None)
        if state.status.phase in TERMINAL or gone:
            line = views.job_line(state)
            self._end(job.id, line if state.status.phase in TERMINAL else _deleted(line))
        if self._events:
            self._news.set()

    def _end(self, job_id: str, line: Json) -> None:
        self._seen[job_id].ended = True
        self._waiting.pop(job_id, None)
        self._events.append({"type": "end", "job": line})
        if all(seen.ended for seen in self._seen.values()):
            self._events.append({"type": "all ended"})

    # --- why jobs wait -----------------------------------------------------------------------------

    def _ask_why(self) -> None:
        """Ask the operator now and then; while it is silent nothing is said of it."""
        now = time.monotonic()
        if not self._waiting or now < self._asked + _BETWEEN_QUESTIONS:
            return
        self._asked = now
        for job_id in self._waiting:
            with contextlib.suppress(ApiError):
                self._say_why(job_id)

    def _say_why(self, job_id: str) -> None:
        line = self._operator.get(f"/v1/jobs/{job_id}")
        said = (line.get("message"), line.get("position"))
        if line.get("phase") == Phase.QUEUED and said != self._seen[job_id].said:
            self._seen[job_id].said = said
            self._events.append({"type": "verdict", "job": line})


def new_events(seen: ReportedState, state: JobState) -> Iterator[Json]:
    """What has happened since it was looked at last, with what came between where that was not seen."""
    status = state.status
    before = seen.phase
    if status.generation > seen.generation and status.phase in _STARTED:
        if seen.generation and before is not Phase.RESTARTING:
            lost = status.last_failure.message if status.last_failure else status.message
            yield _transition(state, before, Phase.RESTARTING, lost)
        seen.generation = status.generation
        yield _transition(state, Phase.QUEUED, Phase.ADMITTED, status.message)
        before = Phase.ADMITTED
    if status.phase is not before:
        yield _transition(state, before, status.phase, status.message)
    seen.phase = status.phase


def _transition(state: JobState, before: Phase, after: Phase, message: str) -> Json:
    at = state.status.admitted_at if after is Phase.ADMITTED else None
    said = {"before": before.value, "after": after.value, "message": message}
    return {"type": "transition", "job_id": state.id, "at": at or int(time.time() * 1000), **said}


def _deleted(line: Json) -> Json:
    """A job whose object was deleted has been cancelled by that."""
    said = {"reason": CANCELLED, "message": "cancelled: its object was deleted"}
    return {**line, "phase": Phase.FAILED.value, "finished_at": int(time.time() * 1000), **said}


def _scopes(jobs: Iterable[JobObject]) -> dict[tuple[Resource, str], list[JobObject]]:
    """One watch for those of a kind and namespace."""
    found: dict[tuple[Resource, str], list[JobObject]] = {}
    for job in jobs:
        found.setdefault((job.resource, job.namespace), []).append(job)
    return found


async def _raise(error: BaseException) -> None:
    raise error
