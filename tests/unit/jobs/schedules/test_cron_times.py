"""Times of cron expressions: DST, macros, and errors for expressions that cannot be read."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from zoneinfo import ZoneInfo

import pytest

from windlass.jobs.schedules.cron_times import (
    count_times,
    format_time,
    last_time,
    read_cron,
    read_time_zone,
    times_after,
)

BERLIN = "Europe/Berlin"


def ms(text: str, zone: str = "UTC", fold: int = 0) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp() * 1000)


def first(cron: str, zone: str, after: int, count: int) -> list[str]:
    return [format_time(time, zone) for time in islice(times_after(cron, zone, after), count)]


def test_a_daily_time_keeps_its_hour_over_both_changes_of_the_year() -> None:
    assert first("0 3 * * *", BERLIN, ms("2026-03-28"), 3) == [
        "2026-03-28 03:00 CET",
        "2026-03-29 03:00 CEST",
        "2026-03-30 03:00 CEST",
    ]
    assert first("0 3 * * *", BERLIN, ms("2026-10-24T12:00"), 2) == ["2026-10-25 03:00 CET", "2026-10-26 03:00 CET"]


def test_times_in_the_skipped_hour_run_once_at_its_end() -> None:
    assert first("0,30 2 * * *", BERLIN, ms("2026-03-28T12:00"), 3) == [
        "2026-03-29 03:00 CEST",
        "2026-03-30 02:00 CEST",
        "2026-03-30 02:30 CEST",
    ]


@pytest.mark.parametrize("fold", [0, 1])
def test_times_in_the_repeated_hour_run_once(fold: int) -> None:
    assert first("30 2 * * *", BERLIN, ms("2026-10-25T02:10", BERLIN, fold=0), 2) == [
        "2026-10-25 02:30 CEST",
        "2026-10-26 02:30 CET",
    ]
    again = first("30 2 * * *", BERLIN, ms("2026-10-25T02:10", BERLIN, fold=1), 1)
    assert again == ["2026-10-26 02:30 CET"], "02:30 of that day was in the first pass"


def test_an_expression_with_a_star_follows_elapsed_time() -> None:
    assert first("*/30 * * * *", BERLIN, ms("2026-10-25T02:15", BERLIN, fold=0), 3) == [
        "2026-10-25 02:30 CEST",
        "2026-10-25 02:00 CET",
        "2026-10-25 02:30 CET",
    ]


def test_the_last_time_is_found_after_a_long_absence() -> None:
    after, now = ms("2001-01-01"), ms("2026-11-27T12:34:56")
    assert last_time("* * * * *", "UTC", after, now) == ms("2026-11-27T12:34")
    assert last_time("0 0 29 2 *", "UTC", after, now) == ms("2024-02-29")
    assert last_time("0 0 29 2 *", "UTC", ms("2024-02-29"), now) is None
    assert count_times("* * * * *", "UTC", after, now, 100) == 100


@pytest.mark.parametrize(
    ("cron", "wrong"),
    [
        ("0 3 * *", "five fields"),
        ("0 0 3 * * *", "five fields"),
        ("60 3 * * *", "Bad minute"),
        ("0 0 31 2 *", "Bad day-of-month"),
        ("0 3 * * FUNDAY", "Bad day-of-week"),
        ("CRON_TZ=UTC 0 3 * * *", "time_zone"),
        ("٣ 3 * * *", "five fields"),
        ("* " * 400, "five fields"),
        ("", "five fields"),
    ],
)
def test_an_expression_that_cannot_be_read_gets_one_clear_error(cron: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        read_cron(cron)


def test_expressions_are_read_with_names_and_macros() -> None:
    assert read_cron("  0  3 * *  mon-fri ") == "0 3 * * mon-fri"
    assert first(read_cron("@daily"), "UTC", ms("2026-01-01T05:00"), 1) == ["2026-01-02 00:00 UTC"]
    assert datetime.fromtimestamp(next(times_after("0 0 L * *", "UTC", ms("2026-02-03"))) / 1000, UTC).day == 28


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../../etc/passwd", "Europe", "", "/etc/localtime", "A" * 500])
def test_an_unknown_time_zone_gets_one_clear_error(zone: str) -> None:
    with pytest.raises(ValueError, match="expects a name of the time zone database"):
        read_time_zone(zone)


def test_a_known_time_zone_is_read() -> None:
    assert read_time_zone("America/Argentina/Buenos_Aires") == "America/Argentina/Buenos_Aires"
