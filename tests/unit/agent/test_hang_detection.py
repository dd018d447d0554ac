"""Hang detection, without a clock."""

import pytest

from windlass.agent.hang_detection import (
    HangLimits,
    HeartbeatTracker,
    SlowestRank,
    detect_hang,
    find_slowest_rank,
    phase_limit,
)
from windlass.wire import Heartbeat

LIMITS = HangLimits(factor=4.0, floor=1.0, initial=100.0)


def beats(heartbeats, rank, *phases, step=1, start=0.0):
    """A rank enters these (phase, time) one after the other."""
    for beat, (phase, now) in enumerate(phases):
        heartbeats.record(Heartbeat(rank, 1, step, phase, step * 10 + beat), start + now)


def trained(ranks=2, steps=20):
    """Ranks that have done steps of 1 s in forward and 2 s in backward."""
    heartbeats = HeartbeatTracker()
    for step in range(steps):
        for rank in range(ranks):
            beats(heartbeats, rank, ("forward", 0.0), ("backward", 1.0), step=step, start=3.0 * step)
    return heartbeats


def passed(phase, spans):
    """A rank that has been so often in this phase, so long."""
    heartbeats, now = HeartbeatTracker(), 0.0
    for beat, span in enumerate([*spans, 0.0]):
        heartbeats.record(Heartbeat(0, 1, 1, phase, beat), now)
        now += span
    return heartbeats


def test_a_phase_may_last_a_multiple_of_its_usual_time():
    heartbeats = trained()
    assert phase_limit(heartbeats, 0, "forward", LIMITS) == 4.0
    assert phase_limit(heartbeats, 0, "backward", LIMITS) == 8.0


def test_a_new_phase_may_last_longer_and_a_known_one_at_least_the_floor():
    assert phase_limit(passed("data", [0.1] * 3), 0, "data", LIMITS) == 100.0
    assert phase_limit(passed("data", [0.1] * 30), 0, "data", LIMITS) == 1.0


def test_a_phase_is_known_after_several_steps_and_unknown_again_after_a_restart():
    heartbeats = trained(ranks=8, steps=3)
    assert phase_limit(heartbeats, 0, "forward", LIMITS) == 100.0
    heartbeats = trained()
    heartbeats.forget()
    assert phase_limit(heartbeats, 0, "forward", LIMITS) == 100.0


@pytest.mark.parametrize("phase", ["outside", "save", "evaluate"])
def test_an_open_phase_keeps_the_limit_of_an_unknown_one(phase):
    assert phase_limit(passed(phase, [0.001] * 300), 0, phase, LIMITS) == 100.0
    assert phase_limit(passed(phase, [0.001] * 300 + [50.0] * 30), 0, phase, LIMITS) == 200.0


def test_one_slow_step_among_hundreds_does_not_count():
    assert phase_limit(passed("data", [1.0] * 300 + [60.0]), 0, "data", LIMITS) == 4.0


@pytest.mark.parametrize(("waited", "hangs"), [(7.9, False), (8.1, True)])
def test_ranks_in_one_phase_for_too_long_hang(waited, hangs):
    heartbeats = trained()
    verdict = detect_hang([find_slowest_rank(heartbeats, LIMITS, 58.0 + waited)], LIMITS)
    assert (verdict is not None) == hangs


def test_the_rank_that_is_behind_is_named_and_not_those_that_wait_for_it():
    heartbeats = trained()
    beats(heartbeats, 0, ("forward", 0.0), ("backward", 1.0), step=20, start=60.0)
    beats(heartbeats, 1, ("forward", 0.0), step=20, start=60.0)
    rank, why = detect_hang([find_slowest_rank(heartbeats, LIMITS, 70.0)], LIMITS)
    assert rank == 1
    assert why == "rank 1 is in forward of step 20 for 10.0 s (at most 4.0); rank 0 is in backward of step 20"


def test_a_rank_that_waits_for_one_in_an_open_phase_does_not_hang():
    heartbeats = trained()
    beats(heartbeats, 0, ("forward", 0.0), step=20, start=60.0)
    beats(heartbeats, 1, ("save", 0.0), step=19, start=60.0)
    assert detect_hang([find_slowest_rank(heartbeats, LIMITS, 150.0)], LIMITS) is None
    assert detect_hang([find_slowest_rank(heartbeats, LIMITS, 161.0)], LIMITS)[0] == 1


def test_the_rank_that_is_behind_may_be_on_another_node():
    here = SlowestRank(0, step=20, phase="backward", beat=9, in_phase_s=50.0, limit_s=8.0)
    there = SlowestRank(5, step=20, phase="data", beat=8, in_phase_s=50.0, limit_s=100.0)
    assert detect_hang([here, there], LIMITS) is None
    assert detect_hang([here, there._replace(in_phase_s=101.0)], LIMITS)[0] == 5


def test_a_rank_that_has_ended_is_not_waited_for():
    heartbeats = trained()
    heartbeats.forget(1)
    assert find_slowest_rank(heartbeats, LIMITS, 1000.0).rank == 0
    heartbeats.forget()
    assert find_slowest_rank(heartbeats, LIMITS, 1000.0).rank == -1


def test_without_heartbeats_missing_output_is_a_hang_if_it_is_limited():
    nodes = [SlowestRank(silent_s=700.0), SlowestRank(silent_s=650.0)]
    assert detect_hang(nodes, LIMITS) is None
    assert detect_hang(nodes, LIMITS._replace(silence=600.0)) == (-1, "no rank has printed anything for 650 s")
    assert detect_hang([*nodes, SlowestRank(silent_s=1.0)], LIMITS._replace(silence=600.0)) is None
