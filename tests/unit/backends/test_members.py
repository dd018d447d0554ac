"""The member tracker: the events that follow from reports, their order, and their number."""

import random
import signal
import time

import pytest

from windlass.backends.members import SETTLING_MS, MemberTracker
from windlass.core.lifecycle.events import Event, Exit, GangGone, MemberExited, MemberStarted, Started

OK = Exit(code=0)
CRASH = Exit(code=1, detail="exit 1")
KILLED = Exit(signal=signal.SIGKILL, detail="killed")
SHELL_KILLED = Exit(code=128 + signal.SIGKILL, detail="killed, by the shell's word")


def running(count: int = 3, **options: object) -> MemberTracker:
    tracker = MemberTracker(1, count, **options)  # type: ignore[arg-type]  # options of the tracker
    for member in range(count):
        tracker.start(member)
    assert tracker.take_events(0) == [Started(1)]
    return tracker


def causes(events: list[Event]) -> list[tuple[int, str]]:
    return [(event.member, event.exit.detail) for event in events if isinstance(event, MemberExited)]


def test_a_gang_has_started_when_its_last_member_has() -> None:
    tracker = MemberTracker(7, 2)
    tracker.appear(0)
    tracker.start(1)
    assert tracker.take_events(0) == []
    tracker.start(0)
    assert tracker.take_events(0) == [Started(7)]
    tracker.start(0)
    assert tracker.take_events(0) == []


def test_a_member_that_succeeds_early_is_reported_after_the_start() -> None:
    tracker = MemberTracker(1, 2)
    tracker.end(0, OK, 5)
    assert tracker.take_events(0) == []
    tracker.start(1)
    assert tracker.take_events(0) == [Started(1), MemberExited(1, 0, OK, 5)]


def test_a_member_that_cannot_run_is_reported_before_the_start() -> None:
    tracker = MemberTracker(1, 1)
    tracker.appear(0)
    tracker.fail(0, CRASH)
    assert tracker.take_events(0) == [MemberExited(1, 0, CRASH)]
    tracker.stopping = True
    assert tracker.take_events(0) == []
    tracker.leave(0)
    assert tracker.take_events(0) == [GangGone(1, unstarted=(0,))]


def test_a_gang_that_is_stopped_before_its_start_tells_which_members_never_started() -> None:
    tracker = MemberTracker(1, 3)
    for member in range(3):
        tracker.appear(member)
    tracker.start(1)
    tracker.stopping = True
    tracker.end(1, KILLED, 5)
    tracker.leave(0)
    tracker.leave(2)
    assert tracker.take_events(6) == [MemberExited(1, 1, KILLED, 5), GangGone(1, unstarted=(0, 2))]


def test_every_end_is_reported_once() -> None:
    tracker = running()
    for _ in range(2):
        tracker.end(1, OK, 5)
    assert tracker.take_events(9) == [MemberExited(1, 1, OK, 5)]
    tracker.end(1, CRASH, 4)
    tracker.lose(1, "gone")
    assert tracker.take_events(10_000) == []


def test_a_late_report_that_a_member_is_there_does_not_revive_it() -> None:
    tracker = running(1)
    tracker.end(0, OK, 5)
    tracker.start(0)
    tracker.appear(0)
    tracker.stopping = True
    assert tracker.take_events(9) == [MemberExited(1, 0, OK, 5), GangGone(1)]


def test_the_earliest_end_is_the_cause_not_the_lowest_member() -> None:
    tracker = running()
    tracker.end(0, CRASH, 1_005)
    assert tracker.take_events(1_010) == []
    assert tracker.due == 1_010 + SETTLING_MS
    tracker.end(2, KILLED, 1_001)
    assert tracker.take_events(1_020) == []
    assert causes(tracker.take_events(1_010 + SETTLING_MS)) == [(2, "killed"), (0, "exit 1")]
    assert tracker.due is None


def test_a_failure_is_reported_at_once_where_no_other_end_can_come() -> None:
    tracker = running(2)
    tracker.end(0, CRASH, 1_005)
    tracker.end(1, KILLED, 1_001)
    assert causes(tracker.take_events(1_010)) == [(1, "killed"), (0, "exit 1")]


@pytest.mark.parametrize("kill", [KILLED, SHELL_KILLED])
def test_a_killed_member_precedes_one_that_exited_in_the_same_second(kill: Exit) -> None:
    tracker = running(2)
    tracker.end(0, CRASH, 2_000)
    tracker.end(1, kill, 2_000)
    assert [member for member, _ in causes(tracker.take_events(2_010))] == [1, 0]


def test_an_end_that_was_not_observed_precedes_those_that_follow_from_it() -> None:
    tracker = running(3)
    tracker.end(0, CRASH, 2_000)
    tracker.lose(1, "the pod is gone")
    assert tracker.take_events(2_010) == []
    assert causes(tracker.take_events(2_010 + SETTLING_MS)) == [(1, "the pod is gone"), (0, "exit 1")]


def test_successes_do_not_wait_for_a_failure_to_settle() -> None:
    tracker = running()
    tracker.end(0, CRASH, 10)
    tracker.end(1, OK, 11)
    assert tracker.take_events(12) == [MemberExited(1, 1, OK, 11)]


def test_a_backend_that_observes_ends_in_order_need_not_wait() -> None:
    tracker = running(settling=0)
    tracker.end(0, CRASH, 10)
    assert tracker.take_events(10) == [MemberExited(1, 0, CRASH, 10)]


def test_a_stop_ends_the_wait_for_earlier_ends() -> None:
    tracker = running()
    tracker.end(0, CRASH, 10)
    assert tracker.take_events(10) == []
    tracker.stopping = True
    assert tracker.take_events(11) == [MemberExited(1, 0, CRASH, 10)]


def test_a_stopped_gang_is_gone_when_nothing_of_it_is_alive() -> None:
    tracker = running(2)
    tracker.appear(5)  # no member: a pod whose slot is taken
    tracker.stopping = True
    tracker.end(0, KILLED, 3)
    tracker.end(1, KILLED, 4)
    assert causes(tracker.take_events(5)) == [(0, "killed"), (1, "killed")]
    tracker.leave(5)
    assert tracker.take_events(6, more_may_come=True) == []
    assert tracker.take_events(7) == [GangGone(1)]
    tracker.end(0, OK, 3)
    assert tracker.take_events(8) == []


def test_a_gang_that_never_appeared_is_gone_as_soon_as_it_is_stopped() -> None:
    tracker = MemberTracker(3, 2)
    tracker.stopping = True
    assert tracker.take_events(0) == [GangGone(3, unstarted=(0, 1))]


def test_a_gang_without_living_members_is_not_gone_until_it_is_stopped() -> None:
    tracker = running(1)
    tracker.end(0, OK, 5)
    assert tracker.take_events(5) == [MemberExited(1, 0, OK, 5)]
    assert tracker.succeeded


def test_a_gang_that_vanishes_is_gone_without_a_stop() -> None:
    tracker = running(2)
    tracker.end(1, CRASH, 4)
    tracker.vanish()
    assert tracker.take_events(5) == [MemberExited(1, 1, CRASH, 4), GangGone(1)]


def test_a_tracker_rebuilt_from_the_stored_state_repeats_nothing() -> None:
    tracker = MemberTracker(4, 3, started=True, ended=(1,))
    for member in range(3):
        tracker.start(member)
    tracker.end(1, OK, 5)
    tracker.end(2, OK, 6)
    assert tracker.take_events(7) == [MemberExited(4, 2, OK, 6)]
    tracker.end(0, OK, 8)
    assert tracker.take_events(9) == [MemberExited(4, 0, OK, 8)]
    assert tracker.succeeded


@pytest.mark.parametrize("seed", range(40))
def test_the_order_and_number_of_reports_do_not_change_the_result(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - not for secrets
    ends = {member: rng.choice([OK, CRASH, KILLED]) for member in range(5)}
    reports = [("start", member) for member in ends] + [("end", member) for member in ends]
    reports += rng.choices(reports, k=8)
    rng.shuffle(reports)
    tracker, events = MemberTracker(1, 5), list[Event]()
    for kind, member in reports:
        if kind == "start":
            tracker.start(member)
        else:
            tracker.end(member, ends[member], member * 10)
        events += tracker.take_events(100)
    tracker.stopping = True
    events += tracker.take_events(100)
    assert sum(event == Started(1) for event in events) <= 1
    exits = [event for event in events if isinstance(event, MemberExited)]
    assert {event.member: event.exit for event in exits} == ends
    assert len(exits) == len(ends)
    failed = [event.member for event in exits if not event.exit.ok]
    assert failed == sorted(failed)
    assert isinstance(events[-1], GangGone)


def test_a_report_costs_the_same_in_a_large_gang() -> None:
    def cost(count: int) -> float:
        tracker = running(count)
        begun = time.process_time()
        for member in range(2_000):
            tracker.end(member, OK, member)
            tracker.take_events(member)
        return time.process_time() - begun

    cost(2_000)
    assert cost(100_000) < 5 * cost(2_000) + 0.05


def test_a_member_that_is_restarted_starts_and_ends_again() -> None:
    tracker = MemberTracker(1, 2, alone=True, started=True)
    tracker.end(0, CRASH, 5)
    assert causes(tracker.take_events(5)) == [(0, "exit 1")]
    assert tracker.failed
    tracker.restart(0)
    assert not tracker.failed
    assert tracker.take_events(6) == []
    tracker.appear(0)
    assert tracker.take_events(7) == []
    tracker.start(0)
    assert tracker.take_events(8) == [MemberStarted(1, 0)]
    tracker.end(0, OK, 9)
    tracker.end(1, OK, 9)
    assert [type(event) for event in tracker.take_events(9)] == [MemberExited, MemberExited]
    assert tracker.succeeded


def test_a_restarted_member_that_never_runs_has_started_before_it_ends() -> None:
    tracker = MemberTracker(1, 2, alone=True, started=True)
    tracker.lose(0, "gone")
    tracker.take_events(5)
    tracker.restart(0)
    tracker.end(0, CRASH, 6)
    assert [type(event) for event in tracker.take_events(6)] == [MemberStarted, MemberExited]


def test_a_success_alone_need_not_wait_for_the_start_of_the_others() -> None:
    tracker = MemberTracker(1, 2, alone=True)
    tracker.end(0, OK, 1)
    assert [type(event) for event in tracker.take_events(1)] == [MemberExited]


def test_a_conclusion_ends_every_member_or_the_first() -> None:
    good = running(2)
    good.conclude(OK, 8)
    assert good.take_events(9) == [MemberExited(1, 0, OK, 8), MemberExited(1, 1, OK, 8)]
    bad = running(2)
    bad.leave(1)
    bad.start(1)
    bad.conclude(CRASH, 8)
    assert bad.take_events(9) == [MemberExited(1, 0, CRASH, 8)]
    bad.stopping = True
    bad.leave(0)
    bad.leave(1)
    assert bad.take_events(10) == [GangGone(1)]


def test_a_conclusion_need_not_wait_for_the_start() -> None:
    tracker = MemberTracker(1, 1)
    tracker.conclude(OK)
    assert tracker.take_events(0) == [MemberExited(1, 0, OK)]
