"""Waits for many sources in one thread: descriptors by epoll, and ended children by a descriptor as well."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from typing import TypeAlias

READ = select.EPOLLIN
WRITE = select.EPOLLOUT
Callback: TypeAlias = Callable[[int], None]
"""Gets the epoll mask."""


class Poller:
    """The callbacks of descriptors, by readiness."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._calls: dict[int, Callback] = {}
        self._children = -1
        """Becomes readable when a child of this process has ended."""

    def watch(self, descriptor: int, call: Callback, mask: int = READ) -> None:
        """Names the callback for whenever `descriptor` is ready for `mask`, until `forget`."""
        self._calls[descriptor] = call
        self._epoll.register(descriptor, mask)

    def watch_children(self, call: Callback) -> None:
        """Names the callback for whenever a child of this process has ended."""
        self._children, write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)  # without a handler no byte is written
        self.watch(self._children, call)

    def change(self, descriptor: int, mask: int) -> None:
        """Changes the mask of a descriptor."""
        self._epoll.modify(descriptor, mask)

    def forget(self, descriptor: int) -> None:
        """Removes a descriptor; must be called before it is closed."""
        if self._calls.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def wait(self, until: float | None) -> Iterator[tuple[Callback, int]]:
        """Waits until a descriptor is ready or `until` (monotonic seconds); yields the due callbacks with masks."""
        timeout = -1.0 if until is None else max(0.0, until - time.monotonic())
        for descriptor, mask in self._epoll.poll(timeout):
            if descriptor == self._children:
                _drain(descriptor)
            call = self._calls.get(descriptor)  # an earlier callback may have removed it
            if call is not None:
                yield call, mask


def _drain(pipe: int) -> None:
    try:
        while os.read(pipe, 4096):
            pass
    except BlockingIOError:
        pass
