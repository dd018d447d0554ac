"""Saves that may fail: what failed is told and tried again, and only when it goes on failing the run ends.

Rank 0's clock says when. That a save has failed is known to all ranks once they have waited for it, so what follows
from it is the same on all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from windlass.train.checkpoint.due import due, intervals
from windlass.train.checkpoint.pace import Pace
from windlass.train.checkpoint.saver import Cost, Saver
from windlass.train.checkpoint.store.errors import CheckpointError, RankGoneError, UnusableError, may_pass
from windlass.train.checkpoint.together import Ranks, by_first

Tell = Callable[[str], None]
Begin = Callable[[bool], None]
"""Begins to save, or saves at once if it is given True."""
_TO_INSIST = 150.0
"""Seconds for a last save that nobody waits for."""


class At(NamedTuple):
    """A step, and a time of the monotonic clock."""

    step: int
    seconds: float


class Trying:
    """Begins saves with a saver, and keeps count of those that failed."""

    def __init__(self, saver: Saver, pace: Pace, ranks: Ranks, tell: Tell, *, begun: int | None) -> None:
        """`begun`: the step that was loaded. `tell`: for what a person has to see; rank 0's is heard."""
        self.saver, self.pace = saver, pace
        self._ranks, self._tell = ranks, tell
        self._good = self._last = At(begun or 0, time.monotonic())
        """The newest that is good, or the start; and the last that was begun."""
        self._proven = False
        self._failures = 0
        self._told = False
        """What has become of the last save."""
        self._again = float("inf")

    def wants(self, step: int) -> bool:
        """Whether to save after `step`. Of rank 0 alone: its clock decides.

        By time nobody waits for a slow place until it has missed several intervals; by steps they are waited for.
        """
        now = time.monotonic()
        self._look(now)
        if (
            self.is_busy
            and self.pace.every.steps is None
            and intervals(self.pace.every, step, now, *self._last) < INTERVALS
        ):
            return False
        return now >= self._again or due(self.pace.every, step, now, *self._last)

    def save(self, begin: Begin, step: int) -> None:
        """Save in the background. A collective. Raises CheckpointError when too many failed before."""
        self.settle()
        self._begin(begin, step, blocking=False)

    def insist(self, begin: Begin, step: int, *, seconds: float = _TO_INSIST) -> None:
        """Save at once; try again for so long. A collective. Raises CheckpointError if none of it was any use."""
        self.settle()
        until = time.monotonic() + seconds
        while not self._saved(begin, step, until):
            time.sleep(pause(self._failures))

    def settle(self) -> None:
        """Wait for the save in flight, and count. A collective. Raises CheckpointError when it is hopeless."""
        step = self.saver.in_flight
        if step is None:
            return
        try:
            self.saver.wait()
        except CheckpointError as error:
            self._tell_failure(error, step)
            self._count(error)
            self._give_up_if_hopeless(error)
        else:
            self._tell_success(step)
            self._went_well(self._last)
            assert self.saver.cost is not None  # noqa: S101 - it went well
            self.pace.cost(step, self.saver.cost)

    def went_back(self, step: int) -> None:
        """Training goes on from an older step; newer checkpoints go when the next one is saved."""
        self.saver.go_back_to(step)
        self._good = self._last = At(step, time.monotonic())

    @property
    def good(self) -> int:
        """The step of the newest good checkpoint, 0 if there is none."""
        return self._good.step

    @property
    def is_busy(self) -> bool:
        """Whether a save still goes on, as far as this rank knows."""
        return self.saver.in_flight is not None and self.saver.ended is None

    def _saved(self, begin: Begin, step: int, until: float) -> bool:
        """Whether it went well. Raises what went wrong if there is no use, or no time, in trying again."""
        begun = time.monotonic()
        try:
            self._begin(begin, step, blocking=True)
        except CheckpointError as error:
            self._count(error)
            rest, ended = pause(self._failures), time.monotonic()
            if not may_pass(error) or by_first(self._ranks, lambda: ended + rest + (ended - begun) > until):
                raise
            self._tell(f"{_failed(step, error)}\ntrying again in {rest:.0f} s")
            return False
        self._tell_success(step)
        self._went_well(self._last)
        return True

    def _begin(self, begin: Begin, step: int, *, blocking: bool) -> None:
        self._last = At(step, time.monotonic())
        self._again, self._told = float("inf"), False
        self.pace.saves()
        begin(blocking)

    def _look(self, now: float) -> None:
        """Rank 0 tells what has become of a save before the others have heard of it."""
        step, ended = self.saver.in_flight, self.saver.ended
        if step is None or self._told:
            return
        if isinstance(ended, CheckpointError):
            self._again = now + pause(self._failures + 1)
            self._tell_failure(ended, step)
        elif ended is not None:
            self._tell_success(step)

    def _tell_failure(self, error: CheckpointError, step: int) -> None:
        if not self._told and not isinstance(error, RankGoneError):
            next_one = f"the next try is in {pause(self._failures + 1):.0f} s, or when it is due"
            self._tell(f"{_failed(step, error)}\ntraining goes on: {self._since()}; {next_one}")
        self._told = True

    def _tell_success(self, step: int) -> None:
        if self._told:
            return
        self._told = True
        if self._failures:
            self._tell(f"the checkpoint of step {step} is good; {self._failures} before it had failed")
        ended = self.saver.ended or self.saver.cost
        if isinstance(ended, Cost) and ended.untidy:
            self._tell(f"the checkpoint of step {step} is good; but {ended.untidy}")

    def _count(self, error: CheckpointError) -> None:
        if isinstance(error, RankGoneError):
            raise error
        self._failures += 1

    def _went_well(self, at: At) -> None:
        self._good, self._proven, self._failures = at, True, 0

    def _give_up_if_hopeless(self, error: CheckpointError) -> None:
        """Ends at once where the place has never taken a checkpoint and never will."""
        last = self._last
        passed = by_first(self._ranks, lambda: intervals(self.pace.every, last.step, time.monotonic(), *self._good))
        never = isinstance(error, UnusableError) and not self._proven
        if never or hopeless(self._failures, passed):
            raise type(error)(f"{error}\n{self._failures} saves in a row have failed; {self._since()}") from error

    def _since(self) -> str:
        return f"the newest good checkpoint is of step {self.good}" if self.good else "there is no good checkpoint yet"


def _failed(step: int, error: BaseException) -> str:
    return f"the checkpoint of step {step} could not be saved: {error}"


TRIES = 5
"""So many in a row fail at least,"""
INTERVALS = 3
"""and for so many intervals there was no good checkpoint, before a run ends."""
_FIRST, _LONGEST = 10.0, 300.0


def pause(failures: int) -> float:
    """Seconds from the failure of so many in a row to the next try, where none is due before."""
    return min(_LONGEST, _FIRST * 2.0 ** (min(failures, 20) - 1))


def hopeless(failures: int, intervals: float) -> bool:
    """Whether to end: what is trained now would be lost. `intervals`: since the last good checkpoint."""
    return failures >= TRIES and intervals >= INTERVALS
