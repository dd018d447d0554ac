"""Reports the steps of a run: console line and trackers on the first rank, metrics of every rank to its agent."""

from __future__ import annotations

import time
from collections.abc import Callable

from torch import Tensor

from windlass.train.mesh.degrees import Degrees
from windlass.train.options import RunOptions
from windlass.train.process_group import World
from windlass.train.telemetry.console_line import format_line, metric_values
from windlass.train.telemetry.heartbeat import HeartbeatSender
from windlass.train.telemetry.phase_timers import PhaseTimers
from windlass.train.telemetry.rank_metrics import RankMetrics
from windlass.train.telemetry.step_reporter import RunProgress, StepReporter
from windlass.train.telemetry.tracker_queue import TrackerQueue
from windlass.train.telemetry.trackers import run_name

_TRACKER_TIMEOUT_S = 30.0
"""Maximum seconds to flush trackers at the end; after a stop signal at most half of the time that is left."""


class RunReports:
    """The console line, the trackers and the metrics of one run.

    `planned_steps` and `samples_per_step` are set when the loop starts. `checkpoint_age`: seconds since the newest good
    checkpoint; None without checkpoints.
    """

    def __init__(self, options: RunOptions, world: World, timers: PhaseTimers, heartbeat: HeartbeatSender) -> None:
        self._options, self._timers, self._heartbeat = options, timers, heartbeat
        self._rank_metrics = RankMetrics(timers, world.device)
        self._trackers = TrackerQueue(options.trackers if world.is_first else (), run_name())
        self._is_first = world.is_first
        self._last_metrics: dict[str, float] = {}
        self.planned_steps = self.samples_per_step = 0
        self.checkpoint_age: Callable[[], float | None] = _no_checkpoints
        self.join(world)

    def join(self, world: World) -> None:
        """Reports on these ranks from now on. The rank that becomes the first one opens the trackers."""
        if world.is_first and not self._is_first:
            self._trackers = TrackerQueue(self._options.trackers, run_name())
        self._is_first = world.is_first
        self._reporter = StepReporter(world.control, self._timers, world.device)

    def report(self, loss: Tensor | None, steps_done: int, degrees: Degrees) -> str:
        """Reports to trackers when due, and to the agent; this rank's own metrics at most once a second.

        Returns the console line, "" if none is due.
        """
        self._heartbeat.step = steps_done
        self._reporter.count()
        line = ""
        is_new, every = self._rank_metrics.count(), self._options.report_interval
        if loss is not None and every and steps_done % every == 0:
            progress = RunProgress(steps_done, self.planned_steps, self.samples_per_step, self._options.flops)
            summary = self._reporter.summarize(loss, progress, degrees)
            self._last_metrics, is_new = metric_values(summary), True
            self._heartbeat.publish_metrics(self._last_metrics)
            self._trackers.log(self._last_metrics | self._rank_metrics.values, steps_done)
            line = format_line(summary) if self._options.report_every else ""
        if is_new:
            self._heartbeat.send_metrics(self._last_metrics | self._rank_metrics.values | self._checkpoint_time())
        return line

    def _checkpoint_time(self) -> dict[str, float]:
        """Time of the newest good checkpoint, in ms since the epoch; only the first rank reports it."""
        age = self.checkpoint_age() if self._is_first else None
        return {} if age is None else {"checkpoint_at": (time.time() - age) * 1000}

    def close(self, time_left_ms: int | None) -> None:
        """Sends what is queued. `time_left_ms`: until this process is killed; None without a stop signal."""
        limit = _TRACKER_TIMEOUT_S
        self._trackers.close(limit if time_left_ms is None else min(limit, time_left_ms / 2000))
        self._rank_metrics.close()


def _no_checkpoints() -> None:
    """Age of the newest checkpoint of a run without checkpoints."""
