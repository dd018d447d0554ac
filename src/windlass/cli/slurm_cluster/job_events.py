"""Streams the events of Slurm's jobs by reading their states again and again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from windlass.backends.slurm.job_records import SlurmJob
from windlass.backends.slurm.job_states import job_state, phase_of
from windlass.cli.slurm_cluster.job_views import job_line
from windlass.cli.state_events import ReportedState, new_events
from windlass.core.model.status import TERMINAL, Phase

Json = dict[str, Any]
QUERY_INTERVAL_S = 2.0
"""Time between two queries: the controller of Slurm serves all users of a cluster."""


class SlurmEvents:
    """Events of some jobs: "transition", "verdict", "end" and "all ended".

    `read` returns the followed jobs, and all jobs that the controller knows. `reported` keeps the last reported states,
    so that following again emits only newer events.
    """

    def __init__(
        self,
        read: Callable[[], tuple[Sequence[SlurmJob], Sequence[SlurmJob]]],
        reported: dict[str, ReportedState],
        interval_s: float = QUERY_INTERVAL_S,
    ) -> None:
        self.after = 0
        self._read, self._reported, self._interval_s = read, reported, interval_s
        self._due = 0.0
        for each in reported.values():
            each.ended = False

    def poll(self, timeout: float) -> list[Json]:
        """Returns new events after at most `timeout` seconds and a query. Raises ApiError."""
        wait = self._due - time.monotonic()
        if wait > 0:
            time.sleep(min(wait, timeout))
        if time.monotonic() < self._due:
            return []
        self._due = time.monotonic() + self._interval_s
        followed, jobs = self._read()
        events = [event for job in followed for event in self._events_of(job, jobs)]
        if all(phase_of(job) in TERMINAL for job in followed):
            events.append({"type": "all ended"})
        return events

    def close(self) -> None:
        """Does nothing: no connection is open between queries."""

    def _events_of(self, job: SlurmJob, jobs: Sequence[SlurmJob]) -> list[Json]:
        reported = self._reported.setdefault(job.id, ReportedState())
        if reported.ended:
            return []
        state, line = job_state(job), job_line(job, jobs)
        events = list(new_events(reported, state))
        verdict = (line["message"], line["position"])
        if state.status.phase is Phase.QUEUED and verdict != reported.verdict:
            reported.verdict = verdict
            events.append({"type": "verdict", "job": line})
        if state.status.phase in TERMINAL:
            reported.ended = True
            events.append({"type": "end", "job": line})
        return events
