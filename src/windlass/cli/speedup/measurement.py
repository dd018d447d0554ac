"""Runs a job on one number of ranks, receives its step reports, and cancels it after enough of them."""

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
from windlass.server.errors import ApiError, ErrorCode

Json: TypeAlias = dict[str, Any]
_POLL_S = 0.1
_BY = "windlass scaling after enough steps"


@dataclass(frozen=True, slots=True)
class StopRule:
    """End condition of a run: after a number of steps, or of seconds, beyond the warm-up."""

    warmup: int
    steps: int
    seconds: float | None
    """None: `steps` decides."""


class InterruptedRunError(Exception):
    """The user has interrupted the comparison."""


class JobFailedError(Exception):
    """One of the runs has failed."""


def measure_run(
    connection: Connection,
    submission: Submission,
    size: Size,
    rule: StopRule,
    env: dict[str, str],
    folder: Path,
    interrupts: Interrupts,
    say: Callable[[str], None],
) -> MeasuredRun:
    """Measures one run. `folder`: an empty folder for its checkpoints and the socket; `say`: shows the status.

    Raises ApiError if it can never run here, JobFailedError if it fails, InterruptedRunError after Ctrl-C.
    """
    receiver = TelemetryReceiver(folder)
    env = {**env, wire.TELEMETRY_SOCKET: receiver.path, wire.CHECKPOINTS: str(folder / "checkpoints")}
    resized = Submission(resize_job(submission.job, size, env), source=submission.source)
    try:
        (job_id,) = connection.submit([resized], **submission_context(), owner=owner_process())
        run = _Run(connection, job_id, receiver, rule, say)
        job = run.until_end(interrupts)
        readings = receiver.readings
    finally:
        receiver.close()
    if interrupts.count:
        raise InterruptedRunError
    if not run.ended_by_us and job["phase"] != "Succeeded":
        details = "\n".join(job_messages.end_lines(job, ""))
        raise JobFailedError(f"the job failed on {size.ranks} ranks\n{details}")
    return MeasuredRun(size, job_id, readings, job["run_time"] / 1000, whole=not run.ended_by_us)


class _Run:
    """One run from its start to its end."""

    def __init__(
        self,
        connection: Connection,
        job_id: str,
        receiver: TelemetryReceiver,
        rule: StopRule,
        say: Callable[[str], None],
    ) -> None:
        self._connection, self._id, self._receiver, self._rule, self._say = connection, job_id, receiver, rule, say
        self._handled = 0
        self._measuring_since: float | None = None
        self.ended_by_us = False

    def until_end(self, interrupts: Interrupts) -> Json:
        """Waits for the end; returns the ended job."""
        stream = self._connection.follow(self._id, 0)
        ended: Json = {}
        try:
            while True:
                for event in stream.poll(_POLL_S):
                    if event["type"] == "all ended":
                        return ended
                    if event["type"] == "end":
                        ended = event["job"]
                    elif event["type"] == "verdict":
                        self._say(job_messages.waiting_line(event["job"]))
                self._update(interrupts)
        finally:
            stream.close()

    def _update(self, interrupts: Interrupts) -> None:
        """Handles Ctrl-C, shows the latest report, and cancels the run after enough reports."""
        if interrupts.count > self._handled:
            self._cancel(interrupts.names[-1], at_once=self._handled > 0)
            self._handled = interrupts.count
        readings = self._receiver.readings
        if readings:
            rate = readings[-1].values.get("samples_per_second", 0.0)
            self._say(f"step {readings[-1].step}, {rate:,.4g} samples/s")
        if not self.ended_by_us and not self._handled and self._has_enough():
            self.ended_by_us = True
            self._cancel(_BY, at_once=True)

    def _has_enough(self) -> bool:
        kept = counted_readings(self._receiver.readings, self._rule.warmup)
        if kept and self._measuring_since is None:
            self._measuring_since = time.monotonic()
        if self._rule.seconds is None:
            return sum(count for count, _ in kept) >= self._rule.steps
        since = self._measuring_since
        return since is not None and time.monotonic() - since >= self._rule.seconds

    def _cancel(self, by: str, *, at_once: bool) -> None:
        try:
            self._connection.act("cancel", self._id, by=by, now=at_once)
        except ApiError as error:
            if error.code is not ErrorCode.WRONG_STATE:  # it has just ended by itself
                raise
