"""Writes to the agent's own stdout and stderr in a thread, so that the agent never waits for the console's reader."""

from __future__ import annotations

import os
import queue
import threading

_MAX_BYTES = 4 << 20


class Console:
    """The queue of bytes to write, and the one thread that writes them in order."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[tuple[int, bytes] | None] = queue.SimpleQueue()
        self._size = 0
        self._thread: threading.Thread | None = None

    @property
    def is_full(self) -> bool:
        """Whether so much is unwritten that the agent should read no more output of ranks."""
        return self._size > _MAX_BYTES

    def write(self, descriptor: int, data: bytes) -> None:
        """Queues bytes to be written."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_all, name="console", daemon=True)
            self._thread.start()
        self._size += len(data)
        self._waiting.put((descriptor, data))

    def close(self, timeout: float = 5.0) -> None:
        """Waits until everything is written, at most `timeout` seconds."""
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join(timeout)
            self._thread = None

    def _write_all(self) -> None:
        while (item := self._waiting.get()) is not None:
            descriptor, data = item
            _write(descriptor, data)
            self._size -= len(data)


def _write(descriptor: int, data: bytes) -> None:
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except OSError:  # the reader is gone, or the disk is full: ranks go on
        return
