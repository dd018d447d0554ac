"""What the pods of a run tell the controller."""

from windlass.backends.kubernetes.gangs.run import Run, Seen, Slot, Stage
from windlass.core.lifecycle.events import Exit, MemberExited, Started

WELL = Exit(code=0)
RUNNING = Seen(Stage.RUNNING, ran=True)
ENDED = Seen(Stage.ENDED, WELL, ran=True)
SLOTS = (Slot(0, "launcher", 0, "n1"), Slot(1, "worker", 0, "n1"), Slot(2, "worker", 1, "n2"))


def running(**more) -> Run:
    run = Run(1, SLOTS, launched=True, **more)
    assert run.hear(dict.fromkeys(range(3), RUNNING)) == [Started(1)]
    return run


def exits(events) -> dict[int, Exit]:
    return {event.member: event.exit for event in events if isinstance(event, MemberExited)}


def test_whoever_serves_is_done_when_nobody_is_left_to_be_served():
    run = running(servers=frozenset({"worker"}))
    found = exits(run.hear({0: ENDED, 1: RUNNING, 2: RUNNING}))
    assert {number: end.ok for number, end in found.items()} == {0: True, 1: True, 2: True}
    assert run.succeeded


def test_whoever_serves_a_member_that_failed_is_not_done():
    run = running(servers=frozenset({"worker"}))
    failed = Seen(Stage.ENDED, Exit(code=1), ran=True)
    assert exits(run.hear({0: failed, 1: RUNNING, 2: RUNNING})) == {0: Exit(code=1)}
    assert not run.succeeded


def test_without_servers_all_members_must_end():
    run = running()
    assert exits(run.hear({0: ENDED, 1: RUNNING, 2: RUNNING})) == {0: WELL}
    assert not run.succeeded


def test_a_member_that_was_told_to_go_and_went_quietly_is_lost():
    run = running()
    gone = Seen(Stage.ENDED, WELL, ran=True, dismissed=True)
    [lost] = exits(run.hear({0: RUNNING, 1: RUNNING, 2: gone})).values()
    assert lost.lost
    assert "worker/1 on n2 was deleted" in lost.detail


def test_while_the_run_is_being_stopped_everybody_is_told_to_go():
    run = running()
    run.stopping = True
    gone = Seen(Stage.ENDED, WELL, ran=True, dismissed=True)
    assert exits(run.hear(dict.fromkeys(range(3), gone))) == dict.fromkeys(range(3), WELL)
