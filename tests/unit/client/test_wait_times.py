from __future__ import annotations

import pytest

from windlass.client import wait_times
from windlass.client.errors import TargetUnreachableError, WaitTimeoutError
from windlass.client.wait_times import WaitTimes


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch):
    """A clock that moves only by hand."""
    now = [0.0]
    monkeypatch.setattr(wait_times.time, "monotonic", lambda: now[0])
    return now


def test_pauses_grow_to_a_second_and_are_short_again_after_an_event(clock):
    times = WaitTimes("a-1")
    pauses = [times.next_pause() for _ in range(20)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (0.02, 1.0)
    times.restart()
    assert times.next_pause() == 0.02


def test_the_last_pause_ends_at_the_timeout(clock):
    times = WaitTimes("a-1", timeout=5)
    clock[0] = 4.99
    assert times.next_pause() == pytest.approx(0.01)
    clock[0] = 5.0
    with pytest.raises(WaitTimeoutError, match="a-1 has not ended within 5 s"):
        times.next_pause()


def test_an_outage_of_a_minute_ends_the_wait_and_an_answer_between_starts_it_anew(clock):
    times, gone = WaitTimes("a-1"), TargetUnreachableError("no answer")
    for now in (0, 59):
        clock[0] = now
        times.missed(gone)
    times.reached()
    for now in (61, 121):
        clock[0] = now
        times.missed(gone)
    clock[0] = 122
    with pytest.raises(TargetUnreachableError):
        times.missed(gone)
