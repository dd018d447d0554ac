"""The bounded queue of batches, with a receiver that a test controls."""

import threading
from collections.abc import Callable

from windlass.server.telemetry_export import push_queue
from windlass.server.telemetry_export.push_queue import PushQueue, Receiver, RefusedError, UnreachableError

WAIT_S = 20


class Tracker:
    """A receiver that follows orders: what it raises for each attempt, in order, then nothing."""

    def __init__(self, *raised: Exception | None, before: Callable[[], object] = lambda: None) -> None:
        self.raised, self.sent, self.said, self._before = list(raised), [], [], before
        self.idle = threading.Event()

    def queue(self, max_bytes: int = 100) -> PushQueue[str]:
        return PushQueue(Receiver("traces", "here", lambda: self.send), self.said.append, max_bytes)

    def send(self, batch: str) -> None:
        self._before()
        error = self.raised.pop(0) if self.raised else None
        if error is not None:
            raise error
        self.sent.append(batch)

    def finish(self, queue: PushQueue[str]) -> None:
        """Waits until everything that was offered is sent or dropped."""
        queue.offer("last", 1, self.idle.set)
        assert self.idle.wait(WAIT_S)
        queue.close(WAIT_S)


def test_batches_are_sent_in_order(monkeypatch):
    tracker = Tracker()
    queue = tracker.queue()
    for name in "abc":
        queue.offer(name, 1)
    tracker.finish(queue)
    assert (tracker.sent, tracker.said, queue.lost) == ([*"abc", "last"], [], 0)


def test_an_absent_receiver_gets_everything_later_and_is_named_once(monkeypatch):
    monkeypatch.setattr(push_queue, "_BACKOFF_MS", 0)
    tracker = Tracker(*[UnreachableError("no answer")] * 5)
    queue = tracker.queue()
    queue.offer("a", 1)
    tracker.finish(queue)
    assert tracker.sent == ["a", "last"]
    assert tracker.said == [
        "traces cannot be sent to here: no answer; what waits is sent later",
        "traces are sent to here again",
    ]


def test_a_refused_batch_is_dropped_and_the_next_is_sent():
    tracker = Tracker(RefusedError("status 400"), ValueError("cannot encode"))
    queue = tracker.queue()
    for name in "abc":
        queue.offer(name, 1)
    tracker.finish(queue)
    assert (tracker.sent, queue.lost) == (["c", "last"], 2)
    assert tracker.said == [
        "traces cannot be sent to here: status 400",
        "traces are sent to here again, without 2 batches",
    ]


def test_the_oldest_batches_are_dropped_beyond_the_size():
    go = threading.Event()
    tracker = Tracker(before=lambda: go.wait(WAIT_S))
    queue, done = tracker.queue(max_bytes=100), []
    for name in "abcd":
        queue.offer(name, 40, lambda name=name: done.append(name))
    assert done[:2] == ["a", "b"]
    go.set()
    tracker.finish(queue)
    assert tracker.sent[-3:] == ["c", "d", "last"]
    assert sorted(done) == ["a", "b", "c", "d"]
    assert queue.lost == 2


def test_the_end_does_not_wait_for_an_absent_receiver():
    tracker = Tracker(*[UnreachableError("no answer")] * 99)
    tried = threading.Event()
    tracker._before = tried.set
    queue = tracker.queue()
    queue.offer("a", 1)
    assert tried.wait(WAIT_S)
    queue.close(WAIT_S)
    assert tracker.sent == []


def test_a_missing_library_is_named_with_the_extra_to_install():
    said, done = [], threading.Event()

    def connect() -> Callable[[str], None]:
        raise RefusedError("requests is missing: pip install 'windlass-train[otlp]'")

    queue = PushQueue(Receiver("metrics", "here", connect), said.append)
    queue.offer("a", 1, done.set)
    assert done.wait(WAIT_S)
    queue.close(WAIT_S)
    assert said == ["metrics cannot be sent to here: requests is missing: pip install 'windlass-train[otlp]'"]
