"""A bounded queue of batches, and the thread that sends them in order, with backoff while the receiver is away.

The thread does not keep the process from ending, and imports what sending needs. To offer a batch takes no wait.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from windlass.wire import exponential_backoff

MAX_BYTES = 32 << 20
"""Bytes of all waiting batches; beyond it the oldest are dropped."""
_BACKOFF_MS, _MAX_BACKOFF_MS = 1_000, 60_000
Batch = TypeVar("Batch")


class UnreachableError(Exception):
    """The receiver does not answer, or asks to come again: the batch is sent again later."""


class RefusedError(Exception):
    """The receiver refuses the batch, or nothing can be sent at all: the batch is dropped."""


@dataclass(frozen=True, slots=True)
class Receiver(Generic[Batch]):
    """A receiver: `name` and `address` for messages, and a function that imports and returns what sends a batch.

    That raises UnreachableError, RefusedError; `connect` raises RefusedError where a library is missing.
    """

    name: str
    address: str
    connect: Callable[[], Callable[[Batch], None]]


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[Batch]):
    batch: Batch
    size: int
    done: Callable[[], None]


class PushQueue(Generic[Batch]):
    """Queue of one receiver. `say` is called once when sending fails and once when it succeeds again."""

    def __init__(self, receiver: Receiver[Batch], say: Callable[[str], None], max_bytes: int = MAX_BYTES) -> None:
        self._receiver, self._say, self._max_bytes = receiver, say, max_bytes
        self.lost = 0
        """Batches that were dropped."""
        self.trouble = ""
        """Reason why nothing can be sent at present; empty if it can."""
        self._waiting: deque[_Waiting[Batch]] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=f"export: {receiver.name}", daemon=True)

    def offer(self, batch: Batch, size: int, done: Callable[[], None] = lambda: None) -> None:
        """Queues a batch of about `size` bytes. `done` is called in the thread once it is sent or dropped."""
        with self._changed:
            if self._thread.ident is None:
                self._thread.start()
            self._waiting.append(_Waiting(batch, size, done))
            dropped = []
            while len(self._waiting) > 1 and sum(each.size for each in self._waiting) > self._max_bytes:
                dropped.append(self._waiting.popleft())
            self.lost += len(dropped)
            self._changed.notify()
        for each in dropped:
            each.done()

    def close(self, timeout: float) -> None:
        """Sends what waits, for at most `timeout` seconds, and not while the receiver is away."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        failures = 0
        send: Callable[[Batch], None] | None = None
        while (first := self._next()) is not None:
            try:
                send = send or self._receiver.connect()
                send(first.batch)
            except UnreachableError as error:
                self._report(f"{error}; what waits is sent later")
                failures += 1
                if self._pause(exponential_backoff(failures - 1, _BACKOFF_MS, _MAX_BACKOFF_MS) / 1000):
                    return
                continue
            except Exception as error:  # noqa: BLE001 - whatever a library raises must not end the thread
                self._report(str(error) if isinstance(error, RefusedError) else f"{type(error).__name__}: {error}")
                self.lost += 1
            else:
                self._report("")
            failures = 0
            self._remove(first)

    def _next(self) -> _Waiting[Batch] | None:
        """Waits for a batch; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            return self._waiting[0] if self._waiting else None

    def _remove(self, sent: _Waiting[Batch]) -> None:
        with self._changed:
            if not self._waiting or self._waiting[0] is not sent:  # dropped meanwhile
                return
            self._waiting.popleft()
        sent.done()

    def _pause(self, seconds: float) -> bool:
        """Waits before the next attempt; returns whether the queue was closed."""
        with self._changed:
            return self._changed.wait_for(lambda: self._is_closed, seconds)

    def _report(self, trouble: str) -> None:
        """Says the first failure of a row, and the first success after it."""
        before, self.trouble = self.trouble, trouble
        if trouble and not before:
            self._say(f"{self._receiver.name} cannot be sent to {self._receiver.address}: {trouble}")
        elif before and not trouble:
            without = f", without {self.lost} batches" if self.lost else ""
            self._say(f"{self._receiver.name} are sent to {self._receiver.address} again{without}")
