"""Writes to descriptors in a thread, so that the agent waits neither for its console's reader nor for a slow disk."""

from __future__ import annotations

import os
import queue
import threading

_MAX_BYTES = 4 << 20


class Console:
    """The queue of bytes to write, and the one thread that writes them in order: stdout and stderr, or log files."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[tuple[int, bytes | None] | None] = queue.SimpleQueue()
        self._size = 0
        self._lock = threading.Lock()
        """Guards the size, which both threads change."""
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
        self._add(len(data))
        self._waiting.put((descriptor, data))

    def close_descriptor(self, descriptor: int) -> None:
        """Queues the end of a descriptor: it is closed after what was written to it."""
        if self._thread is None:
            os.close(descriptor)
        else:
            self._waiting.put((descriptor, None))

    def close(self, timeout: float = 5.0) -> None:
        """Waits until everything is written, at most `timeout` seconds."""
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join(timeout)
            self._thread = None

    def _write_all(self) -> None:
        while (item := self._waiting.get()) is not None:
            descriptor, data = item
            if data is None:
                os.close(descriptor)
            else:
                _write(descriptor, data)
                self._add(-len(data))

    def _add(self, size: int) -> None:
        with self._lock:
            self._size += size


def _write(descriptor: int, data: bytes) -> None:
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except OSError:  # the reader is gone, or the disk is full: ranks go on
        return
