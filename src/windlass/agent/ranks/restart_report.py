"""Measures this node's restarts; prints one line per restart and reports it to the agent's parent process."""

from __future__ import annotations

import time
from collections.abc import Iterable

from windlass import wire
from windlass.agent import messages
from windlass.agent.parent_settings import ParentSettings


class RestartReport:
    """The restart that is under way, and the last one after which all ranks ran (`last_recovery`)."""

    def __init__(self, settings: ParentSettings) -> None:
        self._settings = settings
        self._restart: messages.RestartTimes | None = None
        self._first_steps: dict[int, messages.RestartTimes] = {}
        """Ranks of a generation with survivors, until their first step."""
        self.last_recovery: wire.RankRecovery | None = None

    def begin(self, reason: str, failed_at: float) -> None:
        """Records a failure or a stop and its time. It is ignored if the ranks have not stopped since the last one."""
        if self._restart is None or self._restart.stopped_at:
            self._restart = messages.RestartTimes(reason, failed_at, time.monotonic(), 0.0, 0.0)

    def mark_stopped(self) -> None:
        """Records that all ranks of this node have stopped."""
        if self._restart is not None:
            self._restart = self._restart._replace(stopped_at=time.monotonic())

    def mark_reformed(self, reason: str) -> None:
        """Records that survivors have got a new membership."""
        now = time.monotonic()
        self._restart = (self._restart or messages.RestartTimes(reason, now, now, 0.0, 0.0))._replace(stopped_at=now)

    def track_first_steps(self, ranks: Iterable[int]) -> None:
        """Starts tracking the first step of each of these ranks, which are those of a generation with survivors."""
        assert self._restart is not None  # noqa: S101 - survivors have been re-formed
        self._first_steps = dict.fromkeys(ranks, self._restart)

    def forget_first_steps(self) -> None:
        """Stops tracking first steps: all ranks are new."""
        self._first_steps = {}

    def report_started(self, generation: int) -> None:
        """Reports the end of the restart: all ranks run."""
        restart = self._restart
        if restart is not None and restart.stopped_at:
            restart = restart._replace(started_at=time.monotonic())
            messages.print_message(messages.describe_recovery(generation, restart))
            seconds = restart.started_at - restart.failed_at
            self.last_recovery = wire.RankRecovery(generation, seconds, restart.reason)
            self._settings.report(self.last_recovery)
            self._restart = None

    def record_step(self, rank: int, at: float) -> messages.RestartTimes | None:
        """Records that a rank is in a step. Returns the times of the restart with the last rank's first step."""
        restart = self._first_steps.pop(rank, None)
        if restart is None:
            return None
        restart = restart._replace(started_at=max(restart.started_at, at))
        self._first_steps = dict.fromkeys(self._first_steps, restart)
        return None if self._first_steps else restart
