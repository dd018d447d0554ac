"""Times of Slurm's options, in local time."""

from datetime import datetime as local_time

import pytest

from windlass.jobs.syntax.time_words import format_epoch, parse_time

NOW = local_time(2026, 11, 27, 8, 37, 47)  # noqa: DTZ001 - local time


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-11-26", (2026, 11, 26)),
        ("2026-11-26T10:30", (2026, 11, 26, 10, 30)),
        ("2026-11-26T10:30:05", (2026, 11, 26, 10, 30, 5)),
        ("1126", (2026, 11, 26)),
        ("112625", (2025, 11, 26)),
        ("11/26", (2026, 11, 26)),
        ("11/26/25", (2025, 11, 26)),
        ("10:30", (2026, 11, 27, 10, 30)),
        ("10:30:05 PM", (2026, 11, 27, 22, 30, 5)),
        ("12:00am", (2026, 11, 27)),
        ("midnight", (2026, 11, 27)),
        ("noon", (2026, 11, 27, 12)),
        ("now", (2026, 11, 27, 8, 37, 47)),
        ("now-2hours", (2026, 11, 27, 6, 37, 47)),
        ("now+1day", (2026, 11, 28, 8, 37, 47)),
        ("now-60", (2026, 11, 27, 8, 36, 47)),
    ],
)
def test_times(text, time):
    assert parse_time(text, NOW) == local_time(*time).timestamp() * 1000  # noqa: DTZ001 - local time


@pytest.mark.parametrize("text", ["", "soon", "25:00", "1340", "2026-13-01", "now-", "now*2"])
def test_other_texts_are_refused(text):
    with pytest.raises(ValueError, match="expects a time such as"):
        parse_time(text, NOW)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("10:30", (2026, 11, 27, 10, 30)),
        ("08:30", (2026, 11, 28, 8, 30)),
        ("midnight", (2026, 11, 28)),
        ("noon", (2026, 11, 27, 12)),
        ("elevenses", (2026, 11, 27, 11)),
        ("teatime", (2026, 11, 27, 16)),
        ("tomorrow", (2026, 11, 28)),
        ("today", (2026, 11, 27)),
        ("1126", (2027, 11, 26)),
        ("1128", (2026, 11, 28)),
        ("112625", (2025, 11, 26)),
        ("2026-11-26", (2026, 11, 26)),
    ],
)
def test_an_upcoming_time_is_the_next_one(text, time):
    assert parse_time(text, NOW, upcoming=True) == local_time(*time).timestamp() * 1000  # noqa: DTZ001 - local time


def test_seconds_since_the_epoch_are_read_in_every_zone():
    assert format_epoch(1_795_852_799_001) == "uts1795852800"
    assert parse_time("uts1795852800", NOW) == 1_795_852_800_000
