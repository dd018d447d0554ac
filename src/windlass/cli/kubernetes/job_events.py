"""Streams the events of a cluster's jobs from watches of their objects, in the form of a daemon's events."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from windlass.backends.kubernetes.client.object_cache import Change
from windlass.backends.kubernetes.client.reflector import reflect
from windlass.backends.kubernetes.client.resources import Resource
from windlass.cli.kubernetes.api_session import ApiSession
from windlass.cli.kubernetes.job_objects import JobObject
from windlass.cli.kubernetes.operator_client import OperatorClient
from windlass.cli.state_events import ReportedState, new_events, state_transition
from windlass.core.lifecycle.events import Diagnosed
from windlass.core.model.status import CANCELLED, TERMINAL, JobState, Phase
from windlass.jobs.kubernetes.status.conditions import Conditions, conditions_of
from windlass.jobs.kubernetes.status.diagnosis_condition import DIAGNOSED, diagnosis_message
from windlass.server.errors import ApiError
from windlass.server.job_lines import job_line

Json = dict[str, Any]
_QUERY_INTERVAL_S = 1.0
"""Time between two queries to the operator about why a job waits."""


class JobEvents:
    """Events of some jobs: "transition", "verdict", "end" and "all ended". `poll` waits for them.

    `reported` keeps the last reported states, so that following again emits only newer events.
    """

    def __init__(
        self,
        session: ApiSession,
        operator: OperatorClient,
        jobs: Sequence[JobObject],
        reported: dict[str, ReportedState],
    ) -> None:
        self.after = 0
        self._session, self._operator = session, operator
        self._reported = reported
        for job in jobs:
            reported.setdefault(job.id, ReportedState()).ended = False
        self._waiting: dict[str, JobState] = {}
        self._events: list[Json] = []
        self._has_events = asyncio.Event()
        self._queried = 0.0
        self._tasks = [session.start(self._watch(*scope, of)) for scope, of in _scopes(jobs).items()]

    def poll(self, timeout: float) -> list[Json]:
        """Returns new events after at most `timeout` seconds. Raises ApiError if the API server refuses the watch."""
        self._query_reasons()
        if not self._events:
            self._session.wait(timeout, self._has_events)
        for task in self._tasks:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                self._session.run(_raise(error))
        self._has_events.clear()
        events, self._events = self._events, []
        return events

    def close(self) -> None:
        """Cancels the watches."""
        for task in self._tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            self._session.wait(0)

    # --- objects -----------------------------------------------------------------------------------

    async def _watch(self, resource: Resource, namespace: str, jobs: Sequence[JobObject]) -> None:
        only = f"metadata.name={jobs[0].name}" if len(jobs) == 1 else None
        wanted = {job.manifest["metadata"]["uid"] for job in jobs}

        def apply(changes: Sequence[Change[Json]]) -> None:
            for change in changes:
                if change.object["metadata"]["uid"] in wanted:
                    self._update(JobObject(resource, change.object), deleted=change.kind == "deleted")

        def synced() -> None:
            self._has_events.set()

        await reflect(
            self._session.connection,
            resource,
            decode=json.loads,
            apply=apply,
            synced=synced,
            namespace=namespace,
            fields=only,
        )

    def _update(self, job: JobObject, *, deleted: bool) -> None:
        """Emits the events of a changed or deleted object."""
        reported = self._reported[job.id]
        if reported.ended:
            return
        state = job.state()
        self._events += new_events(reported, state)
        self._events += new_diagnoses(reported, state, conditions_of(dict(job.manifest)))
        if state.status.phase is Phase.QUEUED:
            self._waiting[job.id] = state
        else:
            self._waiting.pop(job.id, None)
        if state.status.phase in TERMINAL or deleted:
            line = job_line(state)
            self._end(job.id, line if state.status.phase in TERMINAL else _as_cancelled(line))
        if self._events:
            self._has_events.set()

    def _end(self, job_id: str, line: Json) -> None:
        self._reported[job_id].ended = True
        self._waiting.pop(job_id, None)
        self._events.append({"type": "end", "job": line})
        if all(reported.ended for reported in self._reported.values()):
            self._events.append({"type": "all ended"})

    # --- reasons of waiting jobs ---------------------------------------------------------------------

    def _query_reasons(self) -> None:
        """Asks the operator why jobs wait, at most once a second; an operator that does not answer is ignored."""
        now = time.monotonic()
        if not self._waiting or now < self._queried + _QUERY_INTERVAL_S:
            return
        self._queried = now
        for job_id in self._waiting:
            with contextlib.suppress(ApiError):
                self._query_reason(job_id)

    def _query_reason(self, job_id: str) -> None:
        line = self._operator.get(f"/v1/jobs/{job_id}")
        verdict = (line.get("message"), line.get("position"))
        if line.get("phase") == Phase.QUEUED and verdict != self._reported[job_id].verdict:
            self._reported[job_id].verdict = verdict
            self._events.append({"type": "verdict", "job": line})


def new_diagnoses(reported: ReportedState, state: JobState, conditions: Conditions) -> Iterator[Json]:
    """Yields the verdict that the condition Diagnosed of a job shows, if it is a new one; an end has its own line."""
    message = next((str(each.get("message")) for each in conditions if each.get("type") == DIAGNOSED), "")
    status = state.status
    if not message or status.phase in TERMINAL:
        return
    if (cause := status.diagnosis) is not None and message == diagnosis_message(cause):
        is_new, reported.diagnosed = cause.generation > reported.diagnosed, cause.generation
    else:
        is_new, reported.wait_verdict = message != reported.wait_verdict, message
    if is_new:
        yield {**state_transition(state, status.phase, status.phase, message), "event": Diagnosed.__name__}


def _as_cancelled(line: Json) -> Json:
    """Returns the line of a job that was cancelled by the deletion of its object."""
    end = {"reason": CANCELLED, "message": "cancelled: its object was deleted"}
    return {**line, "phase": Phase.FAILED.value, "finished_at": int(time.time() * 1000), **end}


def _scopes(jobs: Iterable[JobObject]) -> dict[tuple[Resource, str], list[JobObject]]:
    """Groups jobs by kind and namespace, for one watch each."""
    found: dict[tuple[Resource, str], list[JobObject]] = {}
    for job in jobs:
        found.setdefault((job.resource, job.namespace), []).append(job)
    return found


async def _raise(error: BaseException) -> None:
    raise error
