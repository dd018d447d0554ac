"""Waits for many sources in one thread: descriptors by epoll, and ended children by a descriptor as well."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable

READ = select.EPOLLIN
WRITE = select.EPOLLOUT


class Poller:
    """Calls back for descriptors that are ready. A callback gets the epoll mask."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._calls: dict[int, Callable[[int], None]] = {}

    def watch(self, descriptor: int, call: Callable[[int], None], mask: int = READ) -> None:
        """Calls back whenever `descriptor` is ready for `mask`, until `forget`."""
        self._calls[descriptor] = call
        self._epoll.register(descriptor, mask)

    def change(self, descriptor: int, mask: int) -> None:
        """Changes the mask of a descriptor."""
        self._epoll.modify(descriptor, mask)

    def forget(self, descriptor: int) -> None:
        """Removes a descriptor; must be called before it is closed."""
        if self._calls.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def wait(self, until: float | None) -> None:
        """Waits until a descriptor is ready, or until `until` (monotonic seconds); calls back for all ready ones."""
        timeout = -1.0 if until is None else max(0.0, until - time.monotonic())
        for descriptor, mask in self._epoll.poll(timeout):
            call = self._calls.get(descriptor)
            if call is not None:
                call(mask)


def child_ends() -> int:
    """Returns a descriptor that becomes readable when a child of this process has ended."""
    read_end, write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)  # without a handler no byte is written
    return read_end
