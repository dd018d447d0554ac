"""Begin times on the days of 2026 on which the clocks of Berlin change: 29 March at 02:00 and 25 October at 03:00."""

import time
from datetime import UTC, datetime

import pytest

from windlass.jobs.syntax.time_words import parse_time


@pytest.fixture(autouse=True)
def _berlin(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def minutes_from(month, day, hour, minute, text):
    """Minutes from a time in UTC to the begin time of a text that is read then."""
    now = datetime(2026, month, day, hour, minute, tzinfo=UTC).timestamp()
    return (parse_time(text, datetime.fromtimestamp(now), upcoming=True) / 1000 - now) / 60  # noqa: DTZ006 - local time


@pytest.mark.parametrize(
    ("text", "minutes"), [("now+2hours", 120), ("now+1day", 1440), ("now+30minutes", 30), ("02:30", 60), ("noon", 570)]
)
def test_before_clocks_go_forward(text, minutes):
    assert minutes_from(3, 29, 0, 30, text) == minutes


@pytest.mark.parametrize(("text", "minutes"), [("now+10minutes", 10), ("now+90minutes", 90), ("02:30", 45)])
def test_in_the_first_of_two_equal_hours(text, minutes):
    assert minutes_from(10, 25, 0, 45, text) == minutes


@pytest.mark.parametrize(
    ("text", "minutes"), [("now", 0), ("now+10minutes", 10), ("02:30", 15), ("02:15", 1440), ("tomorrow", 1305)]
)
def test_in_the_second_of_two_equal_hours(text, minutes):
    assert minutes_from(10, 25, 1, 15, text) == minutes


def test_seconds_since_the_epoch_in_the_second_of_two_equal_hours():
    now = int(datetime(2026, 10, 25, 1, 15, tzinfo=UTC).timestamp())
    assert minutes_from(10, 25, 1, 15, f"uts{now + 60}") == 1
