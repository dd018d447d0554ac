"""The agent's event loop: waits for descriptors, signals and timers in one thread, and calls back."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import selectors
import signal
import time
from collections.abc import Iterable
from typing import Any, Callable, Union

READ = selectors.EVENT_READ
WRITE = selectors.EVENT_WRITE
Watched = Union[int, Any]
"""A descriptor, or an object with one."""


class DelayedCall:
    """A call at a later time, unless it is cancelled."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """Drops the call."""
        self.call = None


class EventLoop:
    """The loop, and what it waits for. Calls back for each event, in the order of arrival, until `end`."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, DelayedCall]] = []
        self._order = itertools.count()
        self._ended = False

    def watch(self, source: Watched, call: Callable[[], None], events: int = READ) -> None:
        """Calls back whenever the source is ready for `events`, until `forget`. A second call replaces the first."""
        with contextlib.suppress(KeyError):
            self._selector.unregister(source)
        self._selector.register(source, events, call)

    def forget(self, source: Watched) -> None:
        """Stops watching; to be called before the source is closed. Harmless if it was not watched."""
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(source)

    def after(self, seconds: float, call: Callable[[], None]) -> DelayedCall:
        """Calls once, so many seconds from now."""
        timer = DelayedCall(call)
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._order), timer))
        return timer

    def end(self) -> None:
        """Makes `run` return after the current call."""
        self._ended = True

    def run(self) -> None:
        """Handles events until `end`."""
        while not self._ended:
            for key, _ in self._selector.select(self._time_left()):
                if key.fd in self._selector.get_map():  # else an earlier call of this round has removed it
                    key.data()
            while self._timers and self._timers[0][0] <= time.monotonic():
                _, _, timer = heapq.heappop(self._timers)
                if timer.call is not None:
                    timer.call()

    def on_signals(self, signums: Iterable[int], call: Callable[[int], None]) -> None:
        """Calls back with each of these signals, from the loop instead of between two arbitrary instructions."""
        receiver, sender = os.pipe()
        for end in (receiver, sender):
            os.set_blocking(end, False)
        for signum in signums:
            signal.signal(signum, lambda _signum, _frame: None)  # without a handler Python writes no byte
        signal.set_wakeup_fd(sender, warn_on_full_buffer=False)

        def pass_on() -> None:
            for signum in os.read(receiver, 4096):
                call(signum)

        self.watch(receiver, pass_on)

    def _time_left(self) -> float | None:
        while self._timers and self._timers[0][2].call is None:
            heapq.heappop(self._timers)
        return max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else None
