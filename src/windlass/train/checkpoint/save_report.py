"""Prints messages about the results of saves. `save_retry` counts failures and decides on retries."""

from __future__ import annotations

from collections.abc import Callable

from windlass.train.checkpoint.checkpoint_writer import SaveCost
from windlass.train.checkpoint.store.errors import CheckpointError, LeaseLostError, RankGoneError

_FIRST_PAUSE_S, _MAX_PAUSE_S = 10.0, 300.0


class SaveReport:
    """Prints the result of each save once. `write` prints a message on rank 0."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self.is_done = False
        """Whether the result of the last save is reported."""

    def begin(self) -> None:
        """Starts the report of another save."""
        self.is_done = False

    def print_failure(self, error: CheckpointError, step: int, failures: int, newest_good: int) -> None:
        """Prints that a background save has failed. `failures`: in a row, before this one."""
        if not self.is_done and not isinstance(error, RankGoneError | LeaseLostError):
            retry = f"the next try is in {retry_pause(failures + 1):.0f} s, or when it is due"
            self._write(f"{_failure_text(step, error)}\ntraining continues: {describe_newest(newest_good)}; {retry}")
        self.is_done = True

    def print_retry(self, error: CheckpointError, step: int, pause_s: float) -> None:
        """Prints that a blocking save has failed and is retried."""
        self._write(f"{_failure_text(step, error)}\ntrying again in {pause_s:.0f} s")

    def print_success(self, step: int, failures: int, result: SaveCost | BaseException | None) -> None:
        """Prints a success after failures, or one whose cleanup failed. `failures`: in a row, before this save."""
        if self.is_done:
            return
        self.is_done = True
        if failures:
            self._write(f"the checkpoint of step {step} is good; {failures} before it had failed")
        if isinstance(result, SaveCost) and result.cleanup_error:
            self._write(f"the checkpoint of step {step} is good; but {result.cleanup_error}")


def describe_newest(step: int) -> str:
    """Return the newest good checkpoint in words; 0: there is none."""
    return f"the newest good checkpoint is of step {step}" if step else "there is no good checkpoint yet"


def retry_pause(failures: int) -> float:
    """Return seconds from a failure to the next try. `failures`: number of failures in a row."""
    return min(_MAX_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** (min(failures, 20) - 1))


def _failure_text(step: int, error: BaseException) -> str:
    return f"the checkpoint of step {step} could not be saved: {error}"
