"""Runs that are due at a time: missed times, the starting deadline, and the three policies."""

from __future__ import annotations

from dataclasses import replace

from windlass.jobs.schedules.due_runs import decide, next_due, suspend
from windlass.jobs.schedules.run_history import EndedRun, select_surplus
from windlass.jobs.schedules.schedule import MAX_NOTES, ConcurrencyPolicy, Schedule, ScheduleStatus

HOUR = 3_600_000
DAY = 24 * HOUR
HOURLY = Schedule("0 * * * *")
NEW = ScheduleStatus(considered=DAY)


def told(status: ScheduleStatus) -> list[str]:
    return [f"{note.kind}: {note.message}" for note in status.notes]


def test_a_time_starts_one_run_and_only_once() -> None:
    assert decide(HOURLY, NEW, is_active=False, now=DAY + HOUR - 1).start is None
    due = decide(HOURLY, NEW, is_active=False, now=DAY + HOUR + 5)
    assert (due.start, due.status.last_run) == (DAY + HOUR, DAY + HOUR)
    assert decide(HOURLY, due.status, is_active=False, now=DAY + HOUR + 6).start is None
    assert next_due(HOURLY, due.status) == DAY + 2 * HOUR


def test_of_missed_times_only_the_latest_is_made_up_for_and_the_others_are_told() -> None:
    due = decide(HOURLY, NEW, is_active=False, now=DAY + 4 * HOUR + 5)
    assert (due.start, due.status.missed) == (DAY + 4 * HOUR, 3)
    assert told(due.status) == ["Missed: missed 3 since 1970-01-02 01:00 UTC; no controller ran"]


def test_after_the_starting_deadline_nothing_is_made_up_for() -> None:
    schedule = replace(HOURLY, starting_deadline=60_000)
    assert decide(schedule, NEW, is_active=False, now=DAY + HOUR + 60_000).start == DAY + HOUR
    late = decide(schedule, NEW, is_active=False, now=DAY + HOUR + 60_001)
    assert (late.start, late.status.missed) == (None, 1)
    assert told(late.status) == ["Missed: 1970-01-02 01:00 UTC could not start within the starting deadline"]


def test_a_suspended_schedule_neither_runs_nor_makes_up_for_times_after_it_is_resumed() -> None:
    suspended = decide(HOURLY, replace(NEW, suspended=True), is_active=False, now=DAY + 3 * HOUR)
    assert (suspended.start, suspended.status.missed) == (None, 0)
    resumed = replace(suspended.status, suspended=False)
    assert decide(HOURLY, resumed, is_active=False, now=DAY + 3 * HOUR + 1).start is None
    assert decide(HOURLY, resumed, is_active=False, now=DAY + 4 * HOUR).start == DAY + 4 * HOUR


def test_runs_that_were_due_or_waited_at_the_suspension_are_told_as_skipped() -> None:
    due = suspend(HOURLY, NEW, is_active=False, now=DAY + HOUR)
    assert (due.suspended, due.skipped, due.last_run) == (True, 1, None)
    assert told(due) == ["Skipped: 1970-01-02 01:00 UTC: the schedule was suspended"]
    queued = replace(HOURLY, policy=ConcurrencyPolicy.QUEUE)
    waits = decide(queued, NEW, is_active=True, now=DAY + HOUR).status
    both = suspend(queued, waits, is_active=False, now=DAY + 2 * HOUR)
    assert (both.waiting, both.skipped, both.considered) == (None, 2, DAY + 2 * HOUR)


def test_skip_passes_a_time_while_a_run_is_active() -> None:
    met = decide(HOURLY, NEW, is_active=True, now=DAY + HOUR)
    assert (met.start, met.stops_active, met.status.skipped) == (None, False, 1)
    assert told(met.status) == ["Skipped: 1970-01-02 01:00 UTC: the previous run has not ended"]
    assert decide(HOURLY, met.status, is_active=False, now=DAY + HOUR + 1).start is None


def test_queue_lets_one_run_wait_for_the_end_of_the_previous_one() -> None:
    schedule = replace(HOURLY, policy=ConcurrencyPolicy.QUEUE)
    first = decide(schedule, NEW, is_active=True, now=DAY + HOUR)
    second = decide(schedule, first.status, is_active=True, now=DAY + 2 * HOUR)
    assert (second.status.waiting, second.status.skipped, second.stops_active) == (DAY + HOUR, 1, False)
    free = decide(schedule, second.status, is_active=False, now=DAY + 2 * HOUR + 5)
    assert (free.start, free.status.waiting) == (DAY + HOUR, None)


def test_replace_stops_the_active_run_and_starts_the_latest() -> None:
    schedule = replace(HOURLY, policy=ConcurrencyPolicy.REPLACE)
    first = decide(schedule, NEW, is_active=True, now=DAY + HOUR)
    assert (first.start, first.stops_active, first.status.waiting) == (None, True, DAY + HOUR)
    repeated = decide(schedule, first.status, is_active=True, now=DAY + HOUR + 1)
    assert repeated.stops_active, "a controller that was killed in between repeats it"
    second = decide(schedule, first.status, is_active=True, now=DAY + 2 * HOUR)
    assert (second.status.waiting, second.status.skipped) == (DAY + 2 * HOUR, 1)
    assert decide(schedule, second.status, is_active=False, now=DAY + 2 * HOUR + 5).start == DAY + 2 * HOUR


def test_a_run_that_waits_longer_than_the_starting_deadline_is_missed() -> None:
    schedule = replace(HOURLY, policy=ConcurrencyPolicy.QUEUE, starting_deadline=60_000)
    waits = decide(schedule, NEW, is_active=True, now=DAY + HOUR).status
    late = decide(schedule, waits, is_active=False, now=DAY + HOUR + 120_000)
    assert (late.start, late.status.missed, late.status.waiting) == (None, 1, None)


def test_a_clock_that_was_days_ahead_does_not_silence_a_schedule_but_seconds_are_believed() -> None:
    ahead = decide(HOURLY, replace(NEW, considered=9 * DAY), is_active=False, now=DAY + HOUR - 1)
    assert decide(HOURLY, ahead.status, is_active=False, now=DAY + HOUR).start == DAY + HOUR
    behind = decide(HOURLY, replace(NEW, considered=DAY + HOUR), is_active=False, now=DAY + HOUR - 5_000)
    assert decide(HOURLY, behind.status, is_active=False, now=DAY + HOUR).start is None


def test_the_history_is_bounded() -> None:
    status = NEW
    for hour in range(1, 40):
        status = decide(HOURLY, status, is_active=True, now=DAY + hour * HOUR).status
    assert (len(status.notes), status.skipped) == (MAX_NOTES, 39)


def test_history_limits_count_successes_and_failures_separately() -> None:
    runs = [EndedRun(f"run-{order}", order, succeeded=order % 2 == 0) for order in range(8)]
    assert select_surplus(replace(HOURLY, kept_succeeded=2, kept_failed=1), runs) == [
        "run-0", "run-1", "run-2", "run-3", "run-5",
    ]  # fmt: skip
    assert select_surplus(replace(HOURLY, kept_succeeded=9, kept_failed=9), runs) == []
