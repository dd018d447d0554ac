"""Time never decreases, also if the clock is set back."""

from __future__ import annotations

from windlass.backends.kubernetes.forward_clock import ForwardClock


def test_time_follows_the_clock():
    times = iter([1000, 1500])
    clock = ForwardClock(lambda: next(times))
    assert [clock.now(), clock.now()] == [1000, 1500]


def test_a_clock_that_is_set_back_continues_from_its_latest_time():
    system_ms = 5000
    clock = ForwardClock(lambda: system_ms)
    assert clock.now() == 5000
    system_ms = 2000
    assert clock.now() == 5000
    system_ms = 2300
    assert clock.now() == 5300


def test_time_advances_behind_the_clock_of_an_earlier_leader():
    system_ms = 1000
    clock = ForwardClock(lambda: system_ms)
    clock.pass_by(3_600_000)
    assert clock.now() == 3_600_000
    system_ms = 2000
    assert clock.now() == 3_601_000


def test_time_ahead_of_the_clock_of_an_earlier_leader_is_unchanged():
    clock = ForwardClock(lambda: 7000)
    clock.pass_by(3000)
    assert clock.now() == 7000
