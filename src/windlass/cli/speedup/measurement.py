"""Running one size of a job: handed in as `windlass run` does, listened to, and ended when enough is known."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from windlass import wire
from windlass.cli import job_messages
from windlass.cli.job_submission import owner_process, submission_context
from windlass.cli.speedup.sizes import Size, resize_job
from windlass.cli.speedup.telemetry import TelemetryReceiver
from windlass.cli.speedup.throughput import MeasuredRun, counted_readings
from windlass.cli.terminal.interrupts import Interrupts
from windlass.jobs.description.submission import Submission
from windlass.server.discovery import Connection
from windlass.server.errors import ApiError, Code

Json: TypeAlias = dict[str, Any]
_PAUSE = 0.1
_BY = "windlass scaling, which has measured enough"


@dataclass(frozen=True, slots=True)
class StopRule:
    """When a run is ended: after so many steps, or so many seconds, beyond the warm-up."""

    warmup: int
    steps: int
    seconds: float | None
    """None: steps decide."""


class InterruptedRunError(Exception):
    """Somebody wants the whole comparison to end."""


class JobFailedError(Exception):
    """One of the runs did not end well."""


def measure_run(
    connection: Connection,
    submission: Submission,
    size: Size,
    enough: StopRule,
    env: dict[str, str],
    folder: Path,
    interrupts: Interrupts,
    say: Callable[[str], None],
) -> MeasuredRun:
    """One run. `folder`: an empty one, for its checkpoints and the socket.

    Raises ApiError if it can never run here, JobFailedError if it fails, InterruptedRunError once Ctrl-C has ended it.
    """
    ear = TelemetryReceiver(folder)
    env = {**env, wire.TELEMETRY_SOCKET: ear.path, wire.CHECKPOINTS: str(folder / "checkpoints")}
    handed = Submission(resize_job(submission.job, size, env), source=submission.source)
    try:
        (job_id,) = connection.submit([handed], **submission_context(), owner=owner_process())
        attended = _Attended(connection, job_id, ear, enough, say)
        job = attended.until_end(interrupts)
        readings = ear.readings
    finally:
        ear.close()
    if interrupts.count:
        raise InterruptedRunError
    if not attended.ended_by_us and job["phase"] != "Succeeded":
        told = "\n".join(job_messages.end_lines(job, ""))
        raise JobFailedError(f"on {size.ranks} ranks the job did not end well\n{told}")
    return MeasuredRun(size, job_id, readings, job["served"] / 1000, whole=not attended.ended_by_us)


class _Attended:
    """One run from its start to its end."""

    def __init__(
        self, connection: Connection, job_id: str, ear: TelemetryReceiver, enough: StopRule, say: Callable[[str], None]
    ) -> None:
        self._connection, self._id, self._ear, self._enough, self._say = connection, job_id, ear, enough, say
        self._asked = 0
        self._measuring_since: float | None = None
        self.ended_by_us = False

    def until_end(self, interrupts: Interrupts) -> Json:
        """The job as it ended."""
        stream = self._connection.follow(self._id, 0)
        ended: Json = {}
        try:
            while True:
                for event in stream.poll(_PAUSE):
                    if event["type"] == "all ended":
                        return ended
                    if event["type"] == "end":
                        ended = event["job"]
                    elif event["type"] == "verdict":
                        self._say(job_messages.waiting_line(event["job"]))
                self._look(interrupts)
        finally:
            stream.close()

    def _look(self, interrupts: Interrupts) -> None:
        if interrupts.count > self._asked:
            self._cancel(interrupts.names[-1], at_once=self._asked > 0)
            self._asked = interrupts.count
        readings = self._ear.readings
        if readings:
            rate = readings[-1].values.get("samples_per_second", 0.0)
            self._say(f"step {readings[-1].step}, {rate:,.4g} samples/s")
        if not self.ended_by_us and not self._asked and self._has_enough():
            self.ended_by_us = True
            self._cancel(_BY, at_once=True)

    def _has_enough(self) -> bool:
        kept = counted_readings(self._ear.readings, self._enough.warmup)
        if kept and self._measuring_since is None:
            self._measuring_since = time.monotonic()
        if self._enough.seconds is None:
            return sum(count for count, _ in kept) >= self._enough.steps
        begun = self._measuring_since
        return begun is not None and time.monotonic() - begun >= self._enough.seconds

    def _cancel(self, by: str, *, at_once: bool) -> None:
        try:
            self._connection.act("cancel", self._id, by=by, now=at_once)
        except ApiError as error:
            if error.code is not Code.WRONG_STATE:  # it has just ended by itself
                raise
