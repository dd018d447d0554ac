from hypothesis import given
from hypothesis import strategies as st

from windlass.core.model.queue import PastUsage
from windlass.core.queues.decayed_usage import SCALE, advance_usage, average_usage, decay_factor

HOUR = 3_600_000
DAY = 24 * HOUR
NEVER_ANYTHING = PastUsage(0, {})


def gpus(past: PastUsage) -> float:
    return past.amounts.get("gpu", 0) / SCALE


def test_half_of_the_usage_remains_after_a_half_life():
    used = PastUsage(0, {"gpu": 8 * SCALE})
    assert average_usage(advance_usage(used, {}, DAY, DAY)) == {"gpu": 4}
    assert average_usage(advance_usage(used, {}, DAY, 3 * DAY)) == {"gpu": 1}
    assert advance_usage(used, {}, DAY, 100 * DAY).amounts == {}


def test_usage_that_lasts_becomes_the_average():
    assert gpus(advance_usage(NEVER_ANYTHING, {"gpu": 8}, DAY, DAY)) == 4
    assert gpus(advance_usage(NEVER_ANYTHING, {"gpu": 8}, DAY, 2 * DAY)) == 6
    steady = PastUsage(0, {"gpu": 8 * SCALE})
    assert advance_usage(steady, {"gpu": 8}, DAY, 12345) == PastUsage(12345, {"gpu": 8 * SCALE})


def test_an_hour_of_eight_counts_as_eight_hours_of_one():
    short = advance_usage(advance_usage(NEVER_ANYTHING, {"gpu": 8}, 365 * DAY, HOUR), {}, 365 * DAY, 8 * HOUR)
    long = advance_usage(NEVER_ANYTHING, {"gpu": 1}, 365 * DAY, 8 * HOUR)
    assert abs(gpus(short) - gpus(long)) < gpus(long) / 500


def test_a_millisecond_of_one_gpu_is_not_lost():
    past = NEVER_ANYTHING
    for now in range(1, 2001):
        past = advance_usage(past, {"gpu": 1}, 7 * DAY, now)
    once = advance_usage(NEVER_ANYTHING, {"gpu": 1}, 7 * DAY, 2000)
    assert abs(gpus(past) / gpus(once) - 1) < 0.01


def test_the_first_call_has_no_past_and_a_clock_that_goes_back_changes_nothing():
    assert advance_usage(None, {"gpu": 8}, DAY, 5) == PastUsage(5, {})
    later = PastUsage(10, {"gpu": SCALE})
    assert advance_usage(later, {"gpu": 8}, DAY, 4) is later


@given(time=st.integers(0, 10 * DAY), half_life=st.integers(1, 30 * DAY))
def test_the_fixed_point_is_the_power_of_two(time, half_life):
    assert abs(decay_factor(time, half_life) / 2**62 - 2 ** (-time / half_life)) < 1e-9


@given(first=st.integers(0, DAY), second=st.integers(0, DAY), held=st.integers(0, 1000), before=st.integers(0, 1000))
def test_two_steps_equal_one(first, second, held, before):
    start = PastUsage(0, {"gpu": before * SCALE})
    stops = advance_usage(advance_usage(start, {"gpu": held}, DAY, first), {"gpu": held}, DAY, first + second)
    assert abs(gpus(stops) - gpus(advance_usage(start, {"gpu": held}, DAY, first + second))) < 1e-3
