"""Ranks for which others wait, in the line that the first rank prints."""

import statistics

from windlass.train.telemetry.step_reporter import busy_times, find_slow_ranks


def test_waiting_in_a_collective_is_no_work():
    times, backward, agree = [616.0, 617.0, 615.0], [410.0, 412.0, 5.0], [6.0, 5.0, 6.0]
    busy = busy_times(times, [backward, agree])
    assert busy == [210.0, 210.0, 614.0]
    assert find_slow_ranks(busy, statistics.median(busy)) == (2,)
