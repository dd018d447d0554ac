"""Retries failed saves: a failure is reported and retried, and only repeated failures end the run.

The clock of rank 0 decides when. All ranks know that a save has failed once they have waited for it, so its
consequences are the same on all of them. `saver` carries out one save, `save_report` prints results.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from windlass.train.checkpoint.adaptive_interval import AdaptiveInterval
from windlass.train.checkpoint.rank_group import RankGroup, run_on_first
from windlass.train.checkpoint.save_interval import elapsed_intervals, is_due
from windlass.train.checkpoint.save_report import SaveReport, describe_newest, retry_pause
from windlass.train.checkpoint.saver import CheckpointSaver
from windlass.train.checkpoint.store.errors import (
    CheckpointError,
    LeaseLostError,
    RankGoneError,
    StorageUnusableError,
    is_retryable,
)

Begin = Callable[[bool], None]
"""Starts a save; with True it waits until the save is complete."""
_FINAL_SAVE_TIMEOUT_S = 150.0
"""Seconds to retry the last save of a run, when no signal limits the time."""


class StepTime(NamedTuple):
    """A step, and a time of the monotonic clock."""

    step: int
    seconds: float


class RetryingSaver:
    """Starts saves with a saver, and counts failures."""

    def __init__(
        self,
        saver: CheckpointSaver,
        interval: AdaptiveInterval,
        ranks: RankGroup,
        report: Callable[[str], None],
        *,
        begun: int | None,
    ) -> None:
        """`begun`: the loaded step. `report`: receives messages for people; that of rank 0 prints them."""
        self.saver, self.interval = saver, interval
        self._ranks, self._report = ranks, SaveReport(report)
        self._newest_good = self._last_begun = StepTime(begun or 0, time.monotonic())
        """The newest good checkpoint, or the start; and the last save that was started."""
        self._has_succeeded = False
        self._failures = 0
        self._retry_at = float("inf")

    def is_save_due(self, step: int) -> bool:
        """Whether to save after `step`. For rank 0 alone: its clock decides.

        With an interval in time, a slow save is not waited for until several intervals have passed; with one in steps
        it is.
        """
        now = time.monotonic()
        self._check_in_flight(now)
        if (
            self.is_busy
            and self.interval.every.steps is None
            and elapsed_intervals(self.interval.every, step, now, *self._last_begun) < MAX_INTERVALS
        ):
            return False
        return now >= self._retry_at or is_due(self.interval.every, step, now, *self._last_begun)

    def save(self, begin: Begin, step: int) -> None:
        """Save in the background. A collective. Raises CheckpointError after too many failures."""
        self.wait()
        self._start(begin, step, blocking=False)

    def save_blocking(self, begin: Begin, step: int, *, seconds: float = _FINAL_SAVE_TIMEOUT_S) -> None:
        """Save now, with retries for `seconds`. A collective. Raises CheckpointError if all of them fail."""
        self.wait()
        until = time.monotonic() + seconds
        while not self._try_save(begin, step, until):
            time.sleep(retry_pause(self._failures))

    def wait(self) -> None:
        """Wait for the save in flight, and count its result. A collective.

        Raises CheckpointError when retries are hopeless.
        """
        step = self.saver.in_flight
        if step is None:
            return
        try:
            self.saver.wait()
        except CheckpointError as error:
            self._report.print_failure(error, step, self._failures, self.newest_good)
            self._count_failure(error)
            self._give_up_if_hopeless(error)
        else:
            self._report.print_success(step, self._failures, self.saver.ended or self.saver.cost)
            self._note_success(self._last_begun)
            assert self.saver.cost is not None  # noqa: S101 - a good save has a cost
            self.interval.note_cost(step, self.saver.cost)

    def rewind_to(self, step: int) -> None:
        """Continue from an older step; newer checkpoints are removed by the next save."""
        self.saver.rewind_to(step)
        self._newest_good = self._last_begun = StepTime(step, time.monotonic())

    @property
    def newest_good(self) -> int:
        """The step of the newest good checkpoint, 0 if there is none."""
        return self._newest_good.step

    @property
    def newest_good_age(self) -> float:
        """Seconds since the newest good checkpoint that this rank knows of; since the start without one."""
        ended = self.saver.ended
        is_good = self.saver.in_flight is not None and ended is not None and not isinstance(ended, BaseException)
        return time.monotonic() - (self._last_begun if is_good else self._newest_good).seconds

    @property
    def is_busy(self) -> bool:
        """Whether a save is in flight, as far as this rank knows."""
        return self.saver.in_flight is not None and self.saver.ended is None

    def _try_save(self, begin: Begin, step: int, until: float) -> bool:
        """Whether the save succeeded. Raises its error if a retry is of no use, or the time is over."""
        begun = time.monotonic()
        try:
            self._start(begin, step, blocking=True)
        except CheckpointError as error:
            self._count_failure(error)
            rest, ended = retry_pause(self._failures), time.monotonic()
            if not is_retryable(error) or run_on_first(self._ranks, lambda: ended + rest + (ended - begun) > until):
                raise
            self._report.print_retry(error, step, rest)
            return False
        self._report.print_success(step, self._failures, self.saver.ended or self.saver.cost)
        self._note_success(self._last_begun)
        return True

    def _start(self, begin: Begin, step: int, *, blocking: bool) -> None:
        self._last_begun = StepTime(step, time.monotonic())
        self._retry_at = float("inf")
        self._report.begin()
        self.interval.note_start()
        begin(blocking)

    def _check_in_flight(self, now: float) -> None:
        """Report the result of a save on rank 0, before other ranks know it."""
        step, ended = self.saver.in_flight, self.saver.ended
        if step is None or self._report.is_done:
            return
        if isinstance(ended, CheckpointError):
            self._retry_at = now + retry_pause(self._failures + 1)
            self._report.print_failure(ended, step, self._failures, self.newest_good)
        elif ended is not None:
            self._report.print_success(step, self._failures, self.saver.ended or self.saver.cost)

    def _count_failure(self, error: CheckpointError) -> None:
        if isinstance(error, RankGoneError | LeaseLostError):
            raise error
        self._failures += 1

    def _note_success(self, at: StepTime) -> None:
        self._newest_good, self._has_succeeded, self._failures = at, True, 0

    def _give_up_if_hopeless(self, error: CheckpointError) -> None:
        """Raise after too many failures; at once if the storage has never accepted a checkpoint and never will."""
        last = self._last_begun
        passed = run_on_first(
            self._ranks, lambda: elapsed_intervals(self.interval.every, last.step, time.monotonic(), *self._newest_good)
        )
        never = isinstance(error, StorageUnusableError) and not self._has_succeeded
        if never or is_hopeless(self._failures, passed):
            raise type(error)(
                f"{error}\n{self._failures} saves in a row have failed; {describe_newest(self.newest_good)}"
            ) from error


MAX_FAILURES = 5
"""Minimum number of failures in a row before a run ends."""
MAX_INTERVALS = 3
"""Minimum number of intervals without a good checkpoint before a run ends."""


def is_hopeless(failures: int, intervals: float) -> bool:
    """Whether to end the run because its progress would be lost. `intervals`: since the last good checkpoint."""
    return failures >= MAX_FAILURES and intervals >= MAX_INTERVALS
