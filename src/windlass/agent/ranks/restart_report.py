"""Measures this node's restarts; prints one line per restart and reports it to the agent's parent process."""

from __future__ import annotations

import time
from collections.abc import Iterable

from windlass import wire
from windlass.agent import messages
from windlass.agent.launcher_settings import LauncherSettings


class RestartReport:
    """The restart that is under way, and the last one after which all ranks ran (`recovered`)."""

    def __init__(self, settings: LauncherSettings) -> None:
        self._settings = settings
        self._restart: messages.RestartTimes | None = None
        self._first_steps: dict[int, messages.RestartTimes] = {}
        """Ranks of a generation with survivors, until their first step."""
        self.recovered: wire.RankRecovery | None = None

    def begin(self, why: str, happened: float) -> None:
        """Records a failure or a stop and its time. It is ignored if the ranks have not stopped since the last one."""
        if self._restart is None or self._restart.stopped:
            self._restart = messages.RestartTimes(why, happened, time.monotonic(), 0.0, 0.0)

    def mark_stopped(self) -> None:
        """Records that all ranks of this node have stopped."""
        if self._restart is not None:
            self._restart = self._restart._replace(stopped=time.monotonic())

    def mark_reformed(self, why: str) -> None:
        """Records that survivors have got a new membership."""
        now = time.monotonic()
        self._restart = (self._restart or messages.RestartTimes(why, now, now, 0.0, 0.0))._replace(stopped=now)

    def await_first_steps(self, ranks: Iterable[int]) -> None:
        """Starts tracking the first step of each of these ranks, which are those of a generation with survivors."""
        assert self._restart is not None  # noqa: S101 - survivors have been re-formed
        self._first_steps = dict.fromkeys(ranks, self._restart)

    def forget_first_steps(self) -> None:
        """Stops tracking first steps: all ranks are new."""
        self._first_steps = {}

    def report_started(self, generation: int) -> None:
        """Reports the end of the restart: all ranks run."""
        past = self._restart
        if past is not None and past.stopped:
            past = past._replace(started=time.monotonic())
            messages.print_message(messages.describe_recovery(generation, past))
            self.recovered = wire.RankRecovery(generation, past.started - past.happened, past.why)
            self._settings.report(self.recovered)
            self._restart = None

    def record_step(self, rank: int, at: float) -> messages.RestartTimes | None:
        """Records that a rank is in a step. Returns the times of the restart with the last rank's first step."""
        past = self._first_steps.pop(rank, None)
        if past is None:
            return None
        past = past._replace(started=max(past.started, at))
        self._first_steps = dict.fromkeys(self._first_steps, past)
        return None if self._first_steps else past
