"""Waiting for many things in one thread: descriptors, signals and times."""

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
"""A descriptor, or anything that has one."""


class Timer:
    """A call at a time to come, until it is cancelled."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """It will not be called any more."""
        self.call = None


class EventLoop:
    """Calls back for whatever is ready, in the order in which it came, until `end`."""

    def __init__(self) -> None:
        self._ready = selectors.DefaultSelector()
        self._times: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._ended = False

    def watch(self, what: Watched, call: Callable[[], None], events: int = READ) -> None:
        """Call back whenever it is ready for `events`, until `forget`. A second call replaces the first."""
        with contextlib.suppress(KeyError):
            self._ready.unregister(what)
        self._ready.register(what, events, call)

    def forget(self, what: Watched) -> None:
        """To be called before it is closed; harmless if it was not watched."""
        with contextlib.suppress(KeyError, ValueError):
            self._ready.unregister(what)

    def after(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Call once, so many seconds from now."""
        timer = Timer(call)
        heapq.heappush(self._times, (time.monotonic() + seconds, next(self._order), timer))
        return timer

    def end(self) -> None:
        """Return from `run` after what is being done now."""
        self._ended = True

    def run(self) -> None:
        """Until `end`."""
        while not self._ended:
            for key, _ in self._ready.select(self._patience()):
                if key.fd in self._ready.get_map():  # else an earlier call of this turn has forgotten it
                    key.data()
            self._ring()

    def on_signals(self, numbers: Iterable[int], call: Callable[[int], None]) -> None:
        """Call back with each of these signals, from the loop and not from wherever the program just is."""
        came, told = os.pipe()
        for end in (came, told):
            os.set_blocking(end, False)
        for number in numbers:
            signal.signal(number, lambda _number, _frame: None)  # without a handler no byte is written
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)

        def pass_on() -> None:
            for number in os.read(came, 4096):
                call(number)

        self.watch(came, pass_on)

    def _patience(self) -> float | None:
        while self._times and self._times[0][2].call is None:
            heapq.heappop(self._times)
        return max(0.0, self._times[0][0] - time.monotonic()) if self._times else None

    def _ring(self) -> None:
        while self._times and self._times[0][0] <= time.monotonic():
            _, _, timer = heapq.heappop(self._times)
            if timer.call is not None:
                timer.call()
