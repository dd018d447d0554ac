"""Writing to the agent's own stdout and stderr without ever waiting for whoever reads them."""

from __future__ import annotations

import os
import queue
import threading

_MOST = 4 << 20


class Console:
    """One thread writes, in order. `full`: so much waits to be written that no more should be read from ranks."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[tuple[int, bytes] | None] = queue.SimpleQueue()
        self._size = 0
        self._thread: threading.Thread | None = None

    @property
    def full(self) -> bool:
        """Whoever reads this console is far behind."""
        return self._size > _MOST

    def write(self, descriptor: int, data: bytes) -> None:
        """Have this written soon."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_all, name="console", daemon=True)
            self._thread.start()
        self._size += len(data)
        self._waiting.put((descriptor, data))

    def close(self, patience: float = 5.0) -> None:
        """Wait until all is written, or nobody reads any more."""
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join(patience)
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
    except OSError:  # nobody reads, or the disk is full: ranks go on
        return
