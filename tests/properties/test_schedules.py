"""Any schedule under any sequence of polls and ends of runs: no due time runs twice, and none disappears."""

from __future__ import annotations

from datetime import datetime
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from depth import depth
from windlass.jobs.schedules.cron_times import read_cron, times_after
from windlass.jobs.schedules.due_runs import decide
from windlass.jobs.schedules.schedule import ConcurrencyPolicy, Schedule, ScheduleStatus

ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Asia/Kathmandu"]
CRONS = ["* * * * *", "*/7 * * * *", "0 * * * *", "30 2 * * *", "0,30 1-3 * * *", "15 0 * * 0", "0 0 1 * *", "@daily"]
CHANGES = ["2026-03-08", "2026-03-29", "2026-04-05", "2026-10-25", "2026-11-01", "2026-06-15"]
MINUTE = 60_000


def starts() -> st.SearchStrategy[int]:
    """Times around changes of the clock."""
    offsets = st.integers(-36 * 60, 36 * 60)
    return st.builds(
        lambda day, zone, offset: (
            int(datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone)).timestamp()) * 1000 + offset * MINUTE
        ),
        st.sampled_from(CHANGES),
        st.sampled_from(ZONES),
        offsets,
    )


schedules = st.builds(
    Schedule,
    st.sampled_from(CRONS),
    st.sampled_from(ZONES),
    st.sampled_from(list(ConcurrencyPolicy)),
    st.sampled_from([None, 0, 90_000, 5 * MINUTE, 600 * MINUTE]),
)
polls = st.lists(st.tuples(st.integers(0, 400 * MINUTE), st.booleans(), st.booleans()), min_size=1, max_size=25)


@given(schedules, starts(), polls)
@depth(300)
def test_each_due_time_runs_once_or_is_accounted_for(
    schedule: Schedule, start: int, polls: list[tuple[int, bool, bool]]
) -> None:
    status, now, is_active, ran = ScheduleStatus(considered=start), start, False, list[int]()
    for wait, ends, is_killed in polls:
        now += wait
        is_active = is_active and not ends
        decision = decide(schedule, status, is_active=is_active, now=now)
        if is_killed:  # between the decision and its commit: the same decision is made again
            assert decide(schedule, status, is_active=is_active, now=now) == decision
        status = decision.status
        assert not (decision.start is not None and is_active), "a run starts beside another"
        if decision.start is not None:
            assert schedule.starting_deadline is None or now - decision.start <= schedule.starting_deadline
            ran.append(decision.start)
            is_active = True
    due = []
    for time in times_after(schedule.cron, schedule.time_zone, start):
        if time > now:
            break
        due.append(time)
    assert len(set(ran)) == len(ran)
    assert set(ran) <= set(due)
    unstarted = status.missed + status.skipped + (status.waiting is not None)
    if status.missed < 100:  # a long absence is counted up to a limit
        assert len(ran) + unstarted == len(due)


@given(st.sampled_from(CRONS), st.sampled_from(ZONES), starts(), st.integers(0, 40))
@depth(300)
def test_times_do_not_depend_on_where_the_search_starts(cron: str, zone: str, start: int, skipped: int) -> None:
    times = list(islice(times_after(cron, zone, start), 60))
    assert all(before < after for before, after in pairwise(times))
    assert list(islice(times_after(cron, zone, times[skipped]), 5)) == times[skipped + 1 : skipped + 6]


@given(st.text(max_size=30) | st.text("0123456789*/,-#L @mondayJAN", max_size=30))
@depth(500)
def test_any_text_is_an_expression_with_times_or_one_clear_error(text: str) -> None:
    cron, wrong = "", ""
    try:
        cron = read_cron(text)
    except ValueError as error:
        wrong = str(error)
    assert wrong.startswith("expects") != bool(cron)
    if cron:
        assert next(times_after(cron, "Europe/Berlin", 0)) > 0
        assert read_cron(cron) == cron
