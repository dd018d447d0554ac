import pytest

from windlass.train.checkpoint.save_interval import SaveInterval, elapsed_intervals
from windlass.train.checkpoint.save_report import retry_pause
from windlass.train.checkpoint.save_retry import is_hopeless


def test_pauses_double_up_to_five_minutes():
    assert [retry_pause(failures) for failures in (1, 2, 3, 4, 5, 6, 7, 1000)] == [10, 20, 40, 80, 160, 300, 300, 300]


@pytest.mark.parametrize(("failures", "passed", "ends"), [(4, 9.0, False), (5, 2.9, False), (5, 3.0, True)])
def test_a_run_ends_after_several_failures_and_several_intervals(failures, passed, ends):
    assert is_hopeless(failures, passed) == ends


def test_elapsed_intervals_by_steps_and_by_time():
    assert elapsed_intervals(SaveInterval(steps=100), 250, 0.0, last_step=100, last_at=0.0) == 1.5
    assert elapsed_intervals(SaveInterval(seconds=60), 9, 130.0, last_step=0, last_at=10.0) == 2.0
