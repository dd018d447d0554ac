"""What a run tells of its pods: once, in order, and nothing that did not happen."""

from __future__ import annotations

from windlass.backends.kubernetes.gangs.run import GONE, Run, Seen, Stage, slots
from windlass.core.lifecycle.events import Exit, GangGone, MemberExited, Started
from windlass.core.model.job import Job, Role
from windlass.core.model.status import Placement

RUNS = Seen(Stage.RUNNING, ran=True)
WAITS = Seen(Stage.WAITING)
OK = Exit(code=0, detail="ended well")
FAILED = Exit(code=3, detail="exited with code 3")


def ended(exit: Exit) -> Seen:
    return Seen(Stage.ENDED, exit, ran=True)


def run(members: int = 2, **more: bool) -> Run:
    job = Job("digits", (Role(replicas=members),))
    return Run(1, slots(job, Placement({"worker": tuple(f"n{number}" for number in range(members))})), **more)


def test_members_count_over_roles_in_the_order_of_ranks() -> None:
    job = Job("digits", (Role("master"), Role("worker", replicas=2)))
    found = slots(job, Placement({"master": ("a",), "worker": ("b", "c")}))
    assert [(slot.number, slot.role, slot.index, slot.node) for slot in found] == [
        (0, "master", 0, "a"),
        (1, "worker", 0, "b"),
        (2, "worker", 1, "c"),
    ]


def test_a_gang_has_started_when_all_of_it_runs() -> None:
    it = run(launched=True)
    assert it.hear({0: RUNS, 1: WAITS}) == []
    assert it.hear({0: RUNS, 1: RUNS}) == [Started(1)]
    assert it.hear({0: RUNS, 1: RUNS}) == []


def test_who_was_quick_has_started_as_well() -> None:
    it = run(launched=True)
    assert it.hear({0: ended(OK), 1: ended(OK)}) == [Started(1), MemberExited(1, 0, OK), MemberExited(1, 1, OK)]


def test_who_is_done_before_others_have_begun_is_told_after_the_start() -> None:
    it = run(launched=True)
    assert it.hear({0: ended(OK), 1: WAITS}) == []
    assert it.hear({0: ended(OK), 1: RUNS}) == [Started(1), MemberExited(1, 0, OK)]


def test_an_end_is_told_once_and_before_the_others_start() -> None:
    it = run(launched=True)
    assert it.hear({0: ended(FAILED), 1: WAITS}) == [MemberExited(1, 0, FAILED)]
    assert it.hear({0: ended(FAILED), 1: WAITS}) == []


def test_a_pod_that_was_there_and_is_missing_is_lost_but_not_while_it_is_being_made() -> None:
    it = run()
    assert it.hear({0: RUNS}) == []
    it.launched = True
    (lost,) = it.hear({0: RUNS})
    assert isinstance(lost, MemberExited)
    assert (lost.member, lost.exit.lost, lost.exit.detail) == (1, True, "the pod of worker/1 on n1 is gone")


def test_nothing_is_gone_while_something_lives_or_a_request_could_bring_it_to_life() -> None:
    it = run(launched=True, started=True)
    it.stopping = it.busy = True
    assert it.hear({0: RUNS, 1: RUNS}) == []
    it.busy = False
    assert it.hear({0: RUNS, 1: ended(OK)}) == [MemberExited(1, 1, OK)]
    assert it.hear({0: ended(OK), 1: ended(OK)}) == [MemberExited(1, 0, OK), GangGone(1)]
    assert it.hear({}) == []


def test_nothing_is_gone_while_a_launchers_job_may_yet_be_made() -> None:
    it = run(launched=True, started=True)
    it.stopping = it.accompanying = True
    assert it.hear({0: ended(OK), 1: ended(OK)}) == [MemberExited(1, 0, OK), MemberExited(1, 1, OK)]
    it.accompanying = False
    assert it.hear({}, more_may_come=True) == []
    assert it.hear({}) == [GangGone(1)]


def test_a_pod_that_belongs_to_no_member_keeps_a_gang_alive() -> None:
    it = run(launched=True, started=True)
    it.stopping = True
    events = it.hear({0: GONE, 1: GONE, 7: RUNS})
    assert [type(event) for event in events] == [MemberExited, MemberExited]
    assert it.hear({7: ended(OK)}) == [GangGone(1)]


def test_who_could_not_be_seated_ends_the_generation() -> None:
    it = run()
    it.failed[1] = Exit(lost=True, detail="n1 is full")
    assert it.hear({0: WAITS}) == [MemberExited(1, 1, it.failed[1])]


def test_of_a_judged_gang_only_the_outcome_is_told() -> None:
    it = run(launched=True, judged=True)
    assert it.hear({0: RUNS, 1: RUNS}) == [Started(1)]
    assert it.hear({0: ended(FAILED), 1: GONE}) == []
    it.outcome = Exit(code=1, detail="the master has failed")
    assert it.hear({0: ended(FAILED), 1: RUNS}) == [MemberExited(1, 0, it.outcome)]


def test_a_judged_gang_that_succeeded_is_done_whatever_some_members_do() -> None:
    it = run(launched=True, judged=True)
    it.started = True
    it.outcome = OK
    assert it.hear({0: ended(OK), 1: RUNS}) == [MemberExited(1, 0, OK), MemberExited(1, 1, OK)]


def test_a_pod_that_a_launchers_job_makes_later_is_not_missed() -> None:
    it = run(launched=True)
    it.made_by_others = frozenset({1})
    assert it.hear({0: RUNS}) == []
