"""Charts in a terminal."""

from hypothesis import example, given
from hypothesis import strategies as st

from windlass.cli.terminal.charts import chart_lines, resample, sparkline


def test_a_sparkline_goes_from_minimum_to_maximum_and_is_blank_without_values():
    assert sparkline([0, 1, 2, None, 7], 10) == "▁▂▃ █"


def test_a_constant_series_is_a_flat_line():
    assert sparkline([3.0, 3.0], 10) == "▁▁"


def test_a_long_series_is_averaged_to_the_width():
    assert resample([1, 3, 5, 7], 2) == [2, 6]


def test_a_chart_has_its_maximum_at_the_top_and_marks_its_minimum():
    assert chart_lines([0.0, 1.0], 10, 2) == [" █", "▁█"]


@given(st.lists(st.none() | st.floats(), max_size=100), st.integers(1, 30), st.integers(1, 5))
@example([1.7e308, 1.7e308], 1, 1)
@example([1.7e308, -1.7e308], 2, 1)
@example([5e-324, 0.0], 2, 1)
def test_charts_of_any_values_fit(values, width, height):
    assert len(sparkline(values, width)) <= width
    lines = chart_lines(values, width, height)
    assert len(lines) in (0, height)
    assert all(len(line) <= width for line in lines)
