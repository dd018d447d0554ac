import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.train.checkpoint.optimal_interval import suggest_interval


def test_the_interval_follows_youngs_formula_and_states_its_numbers():
    suggestion = suggest_interval(stall=2.0, duration=5.0, failures=4, observed=4 * 6 * 3600.0)
    assert suggestion.seconds == pytest.approx(math.sqrt(2 * 2 * 6 * 3600))
    assert suggestion.why == (
        "a save delays training by 2 s, and a failure occurs every 6 h: sqrt(2 × 2 s × 6 h) = 4.9 min; "
        "1.4% of the time is lost to saves and failures"
    )


def test_saves_cost_one_percent_without_a_failure():
    suggestion = suggest_interval(stall=0.005, duration=0.4, failures=0, observed=7200.0)
    assert suggestion.seconds == pytest.approx(0.5)
    assert suggestion.why.endswith("nothing failed in 2 h: at 500 ms saves cost 1%")


def test_the_interval_is_no_shorter_than_a_background_save():
    suggestion = suggest_interval(stall=0.005, duration=30.0, failures=10, observed=1000.0)
    assert suggestion.seconds == 30.0
    assert suggestion.why.endswith("but a save takes 30 s in the background, and only one runs at a time")


@given(st.floats(1e-3, 1e3), st.integers(1, 1000), st.floats(1e3, 1e8))
def test_no_other_interval_loses_less_time(stall, failures, observed):
    def lost(interval):
        return stall / interval + interval / 2 / (observed / failures)

    best = suggest_interval(stall, 0.0, failures, observed).seconds
    assert all(lost(best) <= lost(best * factor) * (1 + 1e-9) for factor in (0.5, 0.9, 1.1, 2.0))
