"""Time goes on, whatever the clock does."""

from __future__ import annotations

from windlass.backends.kubernetes.forward_clock import ForwardClock


def test_it_goes_as_the_clock_goes():
    times = iter([1000, 1500])
    clock = ForwardClock(lambda: next(times))
    assert [clock.now(), clock.now()] == [1000, 1500]


def test_a_clock_that_is_set_back_goes_on_from_where_it_was():
    said = 5000
    clock = ForwardClock(lambda: said)
    assert clock.now() == 5000
    said = 2000
    assert clock.now() == 5000
    said = 2300
    assert clock.now() == 5300


def test_behind_an_earlier_leaders_clock_time_does_not_stand_still():
    said = 1000
    clock = ForwardClock(lambda: said)
    clock.pass_by(3_600_000)
    assert clock.now() == 3_600_000
    said = 2000
    assert clock.now() == 3_601_000


def test_ahead_of_an_earlier_leaders_clock_it_is_as_late_as_it_is():
    clock = ForwardClock(lambda: 7000)
    clock.pass_by(3000)
    assert clock.now() == 7000
