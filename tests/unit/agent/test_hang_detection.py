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
from windlass.wire import OPEN_PHASES, Heartbeat

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
    """A rank that has been in this phase once a step, for so long each time."""
    heartbeats, now = HeartbeatTracker(), 0.0
    for step, span in enumerate([*spans, 0.0]):
        heartbeats.record(Heartbeat(0, 1, step, phase, 1), now)
        now += span
    return heartbeats


def healthy(phases, steps=50, ranks=2, span=0.1):
    """Ranks that have passed through these phases in each step, at the same times. Returns the time of the end too."""
    heartbeats, now = HeartbeatTracker(), 0.0
    for step in range(steps):
        for beat, phase in enumerate(phases):
            for rank in range(ranks):
                heartbeats.record(Heartbeat(rank, 1, step, phase, beat), now)
            now += span
    return heartbeats, now


def verdict(heartbeats, now, limits=None):
    """The verdict on the ranks of one node."""
    limits = limits or HangLimits()
    return detect_hang([find_slowest_rank(heartbeats, limits, now)], limits)


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


def test_one_slow_step_among_hundreds_may_take_twice_as_long_again_and_not_the_factor():
    assert phase_limit(passed("data", [1.0] * 300 + [60.0]), 0, "data", LIMITS) == 120.0
    assert phase_limit(passed("data", [1.0] * 100 + [60.0] + [1.0] * 2000), 0, "data", LIMITS) == 120.0


def test_the_first_steps_say_nothing_about_later_ones():
    assert phase_limit(passed("forward", [300.0, 50.0] + [1.0] * 10), 0, "forward", LIMITS) == 4.0


def test_many_passes_within_one_step_are_one_step():
    heartbeats = HeartbeatTracker()
    for micro_batch in range(50):
        beats(heartbeats, 0, ("forward", 0.0), ("backward", 0.1), start=0.2 * micro_batch)
    assert phase_limit(heartbeats, 0, "forward", LIMITS) == 100.0


STEP = ("data", "forward", "backward", "agree", "device", "optimizer", "outside")


@pytest.mark.parametrize("phase", [phase for phase in STEP if phase != "agree"])
def test_a_stall_of_two_minutes_in_a_phase_with_storage_or_computation_is_no_hang(phase):
    heartbeats, now = healthy(STEP)
    beat = STEP.index(phase)
    heartbeats.record(Heartbeat(0, 1, 50, phase, beat), now)
    heartbeats.record(Heartbeat(1, 1, 50, "agree", len(STEP)), now)
    assert verdict(heartbeats, now + 12.0) is None
    assert verdict(heartbeats, now + 119.0) is None
    if phase not in OPEN_PHASES:
        assert verdict(heartbeats, now + 121.0)[0] == 0


def test_a_time_in_which_the_agent_was_paused_counts_for_no_rank():
    heartbeats, now = healthy(("forward", "agree"))
    heartbeats.record(Heartbeat(0, 1, 50, "forward", 1), now)
    heartbeats.observe(now + 1.0)
    heartbeats.observe(now + 2.0)
    heartbeats.record(Heartbeat(1, 1, 50, "forward", 1), now + 301.0)
    heartbeats.observe(now + 302.0)
    assert find_slowest_rank(heartbeats, HangLimits(), now + 302.0).in_phase_s == 0.0
    assert verdict(heartbeats, now + 400.0) is None
    assert find_slowest_rank(heartbeats, HangLimits(), now + 400.0).rank == 1
    assert verdict(heartbeats, now + 422.1)[0] == 1
    assert heartbeats.newest[0].since == now + 300.0


def test_a_run_with_slow_steps_may_have_slower_ones():
    heartbeats, now = healthy(("forward", "agree"), span=100.0)
    heartbeats.record(Heartbeat(0, 1, 50, "forward", 1), now)
    heartbeats.record(Heartbeat(1, 1, 50, "agree", 2), now)
    assert verdict(heartbeats, now + 799.0) is None
    assert verdict(heartbeats, now + 801.0)[0] == 0


@pytest.mark.parametrize("waits_in", ["forward", "backward"])
def test_a_compilation_in_a_trained_run_is_no_hang(waits_in):
    heartbeats, now = healthy(STEP)
    beat = STEP.index("forward")
    heartbeats.record(Heartbeat(1, 1, 50, "forward", beat), now)
    heartbeats.record(Heartbeat(1, 1, 50, "compile", beat), now + 0.1)
    heartbeats.record(Heartbeat(0, 1, 50, waits_in, STEP.index(waits_in)), now + 0.2)
    assert verdict(heartbeats, now + 900.0) is None
    rank, why = verdict(heartbeats, now + 1801.0)
    assert rank == 1
    assert why.startswith("rank 1 is in compile of step 50")


def test_a_compilation_during_one_pass_does_not_lengthen_the_limit_of_that_phase():
    heartbeats, now = healthy(STEP)
    limit = phase_limit(heartbeats, 0, "forward", LIMITS)
    for phase, at in (("forward", 0.0), ("compile", 0.1), ("forward", 300.0), ("backward", 300.1)):
        heartbeats.record(Heartbeat(0, 1, 50, phase, 1), now + at)
    assert phase_limit(heartbeats, 0, "forward", LIMITS) == limit


def test_a_rank_in_a_device_wait_is_named_with_its_phase():
    heartbeats, now = healthy(STEP)
    heartbeats.record(Heartbeat(0, 1, 50, "optimizer", 5), now)
    heartbeats.record(Heartbeat(1, 1, 50, "device", 4), now)
    rank, why = verdict(heartbeats, now + 130.0)
    assert (rank, why) == (
        1,
        "rank 1 is in device of step 50 for 130.0 s (at most 120.0); rank 0 is in optimizer of step 50",
    )


def test_ranks_that_only_exchange_messages_have_a_shorter_limit():
    heartbeats, now = healthy(STEP)
    for rank in (0, 1):
        heartbeats.record(Heartbeat(rank, 1, 50, "agree", 3), now + rank)
    assert verdict(heartbeats, now + 60.0) is None
    assert verdict(heartbeats, now + 62.0)[0] == 1
    assert phase_limit(heartbeats, 0, "agree", HangLimits(floor=5.0)) == 5.0


def test_the_limit_of_an_unknown_phase_is_never_below_the_floor():
    assert phase_limit(passed("data", [0.1] * 3), 0, "data", HangLimits(floor=3600.0)) == 3600.0


def test_of_ranks_in_one_place_each_must_exceed_its_limit():
    longer = SlowestRank(0, step=20, phase="compile", beat=8, in_phase_s=50.0, limit_s=100.0)
    shorter = SlowestRank(1, step=20, phase="forward", beat=8, in_phase_s=49.0, limit_s=8.0)
    assert detect_hang([longer, shorter], LIMITS) is None
    assert detect_hang([longer._replace(in_phase_s=101.0), shorter], LIMITS)[0] == 0


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


def test_a_pass_that_was_taken_for_a_hang_has_twice_the_time_at_the_same_step():
    """As an epoch that begins with minutes of reading: the restart comes to it again, after the first steps."""
    heartbeats = passed("data", [0.1] * 20)
    began = heartbeats.newest[0].since
    assert verdict(heartbeats, began + 119) is None
    assert verdict(heartbeats, began + 121) is not None
    heartbeats.record_hang(began + 121, HangLimits())
    heartbeats.forget()
    for step in range(10, 21):
        heartbeats.record(Heartbeat(0, 1, step, "data", 1), 1000.0 + step)
    assert verdict(heartbeats, 1020 + 241) is None
    assert verdict(heartbeats, 1020 + 243) is not None


def test_only_ranks_that_exceed_their_limit_get_more_time_and_never_more_than_in_the_first_steps():
    heartbeats, now = healthy(["data", "agree"])
    heartbeats.record_hang(now + 30, HangLimits())
    assert phase_limit(heartbeats, 0, "agree", HangLimits()) == 60
    heartbeats.record_hang(now + 5000, HangLimits())
    assert phase_limit(heartbeats, 0, "agree", HangLimits()) == 1800


def started(*ranks):
    """Ranks that were started at 0 s and have sent no heartbeat."""
    heartbeats = HeartbeatTracker()
    for rank in ranks:
        heartbeats.begin(rank, 0.0)
    return heartbeats


def test_a_rank_without_heartbeats_is_named_where_others_wait_for_it():
    heartbeats = started(0, 1, 2)
    for rank in (0, 2):
        heartbeats.record(Heartbeat(rank, 1, 0, "join", 0), 1.0)
    assert verdict(heartbeats, 599.0) is None
    rank, why = verdict(heartbeats, 601.0)
    assert rank == 1
    assert why.startswith("rank 1 has started and sends no heartbeats for 601.0 s (at most 600.0); rank 2 is in join")


def test_a_rank_without_heartbeats_may_be_the_only_one_of_its_node():
    limits, waiting = HangLimits(start=30.0), started(0)
    waiting.record(Heartbeat(0, 1, 0, "join", 0), 1.0)
    nodes = [find_slowest_rank(each, limits, 31.0) for each in (waiting, started(1))]
    assert detect_hang(nodes, limits)[0] == 1


def test_ranks_that_never_send_heartbeats_do_not_hang():
    limits = HangLimits()
    nodes = [find_slowest_rank(started(2 * node, 2 * node + 1), limits, 1e6, 50.0) for node in range(2)]
    assert detect_hang(nodes, limits) is None
    assert detect_hang(nodes, limits._replace(silence=40.0)) == (-1, "no rank has printed anything for 50 s")


def test_ranks_that_all_wait_for_each_other_hang_after_the_limit_of_the_start():
    heartbeats = started(0, 1)
    for rank, now in ((0, 1.0), (1, 500.0)):
        heartbeats.record(Heartbeat(rank, 1, 0, "join", 0), now)
    assert verdict(heartbeats, 1099.0) is None
    assert verdict(heartbeats, 1101.0)[0] == 1


def test_a_rank_that_is_past_training_is_not_one_without_heartbeats():
    heartbeats = started(0, 1)
    heartbeats.record(Heartbeat(0, 1, 0, "join", 0), 1.0)
    heartbeats.record(Heartbeat(1, 1, 0, "join", 0), 1.0)
    heartbeats.forget(1)
    heartbeats.record(Heartbeat(0, 1, 0, "outside", 1), 2.0)
    assert verdict(heartbeats, 1000.0) is None


def test_the_limit_of_the_start_can_be_turned_off_and_grows_after_a_false_verdict():
    heartbeats = started(0, 1)
    heartbeats.record(Heartbeat(0, 1, 0, "join", 0), 1.0)
    assert verdict(heartbeats, 1e6, HangLimits(start=0.0)) is None
    heartbeats.record_hang(601.0, HangLimits())
    heartbeats.forget()
    for rank in range(2):
        heartbeats.begin(rank, 1000.0)
    heartbeats.record(Heartbeat(0, 1, 0, "join", 0), 1001.0)
    assert verdict(heartbeats, 1000.0 + 1200.0) is None
    assert verdict(heartbeats, 1000.0 + 1203.0)[0] == 1
