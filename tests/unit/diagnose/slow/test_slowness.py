"""Division of a job's time: stragglers, data, checkpoints, communication, clocks."""

from __future__ import annotations

import pytest

from windlass.diagnose.check_pages import find_check
from windlass.diagnose.slow.analysis import analyze_slowness, find_straggler
from windlass.diagnose.slow.rank_times import OUTSIDE, read_ranks
from windlass.diagnose.steps import State

BALANCED = {"data": 2, "forward": 30, "backward": 60, "agree": 2, "optimizer": 6}


def rank(number, *, node="n1", seconds=100.0, values=None, **phases):
    """Returns a rank as a job's details have it; `phases` in percent of the run, in place of a balanced one's."""
    spent = {f"total_{phase}_ms": part * seconds * 10 for phase, part in {**BALANCED, **phases}.items()}
    return {"rank": number, "node": node, "values": {"total_ms": seconds * 1000, **spent, **(values or {})}}


def judge(*ranks, of=None):
    steps = analyze_slowness(read_ranks(ranks), of or len(ranks))
    assert all(step.fix for step in steps if step.state in (State.WARNING, State.WRONG))
    assert all(find_check(step.name) for step in steps)
    return {step.name: step for step in steps}


def faults(steps):
    return {name: step.state for name, step in steps.items() if step.state in (State.WARNING, State.WRONG)}


def test_a_balanced_job_has_no_bottleneck():
    steps = judge(*map(rank, range(4)))
    assert faults(steps) == {}
    assert steps["slow.compute"].share == pytest.approx(0.96)
    assert steps["slow.telemetry"].text == "4 of 4 ranks report, 100 s since the first step"


def test_the_rank_that_waits_least_is_the_one_that_others_wait_for():
    steps = judge(rank(0, backward=60), rank(1, backward=60), rank(2, forward=60, backward=30), rank(3))
    assert faults(steps) == {"slow.straggler": State.WRONG}
    text = steps["slow.straggler"].text
    assert text == "30% of the run: others wait for rank 2, which computes longer (30% more)"
    assert steps["slow.straggler"].share == pytest.approx(0.3)


def test_all_ranks_of_a_slow_node_are_named():
    fast = [rank(number) for number in range(6)]
    slow = [rank(number, node="n9", forward=50, backward=40) for number in (6, 7)]
    step = judge(*fast, *slow)["slow.straggler"]
    assert "rank 6, 7" in step.text
    assert step.fix.startswith("windlass doctor host --burn on n9")


def test_one_rank_with_a_slow_loader_is_a_straggler_and_not_a_slow_loader_of_all():
    steps = judge(rank(0), rank(1), rank(2, data=42, backward=20))
    assert faults(steps) == {"slow.straggler": State.WRONG}
    assert "rank 2, which waits for its samples" in steps["slow.straggler"].text


@pytest.mark.parametrize(
    ("phase", "name", "part", "state"),
    [
        ("data", "slow.data", 60, State.WRONG),
        ("data", "slow.data", 15, State.WARNING),
        ("save", "slow.checkpoint", 30, State.WRONG),
        ("evaluate", "slow.evaluation", 12, State.WARNING),
    ],
)
def test_a_phase_that_all_ranks_spend_time_in_is_a_cause(phase, name, part, state):
    rest = {"forward": (90 - part) / 3, "backward": (90 - part) / 1.5}
    steps = judge(*(rank(number, **{**rest, phase: part}) for number in range(2)))
    assert faults(steps) == {name: state}
    assert next(iter(steps)) == name
    assert steps[name].share == pytest.approx(part / 100)


def test_a_finding_has_one_line_with_the_number_of_ranks():
    slow = [rank(number, node=f"n{number // 4}", data=60, forward=10, backward=20) for number in range(8)]
    assert judge(*slow)["slow.data"].evidence == (
        "8 of 8 ranks: data 60%, backward 20%, forward 10%, optimizer 6%, outside 2%",
    )
    slow[5] = rank(5, node="n1", data=64, forward=8, backward=18)
    (line,) = judge(*slow)["slow.data"].evidence
    assert line.endswith("; data from 60% (rank 0 on n0) to 64% (rank 5 on n1)")


def test_late_ranks_are_described_in_one_line():
    fast = [rank(number) for number in range(6)]
    slow = [rank(number, node="n9", forward=50, backward=40) for number in (6, 7)]
    (line,) = judge(*fast, *slow)["slow.straggler"].evidence
    assert line == "2 of 8 ranks: forward 50%, backward 40%, optimizer 6%, data 2%, agree 2%"


def test_time_without_a_phase_is_the_scripts_own():
    (only,) = read_ranks([rank(0, forward=10, backward=20)])
    assert only.parts[OUTSIDE] == pytest.approx(0.6)
    assert faults(judge(rank(0, forward=10, backward=20))) == {"slow.outside": State.WRONG}


def test_a_long_backward_pass_of_all_ranks_is_communication():
    steps = judge(*(rank(number, forward=10, backward=80) for number in range(4)))
    assert faults(steps) == {"slow.communication": State.WRONG}
    assert steps["slow.communication"].share == pytest.approx(0.62)


def test_gpus_with_low_clocks_are_named():
    fine = {"gpu_sm_clock": 1980.0, "gpu_max_sm_clock": 1980.0, "gpu_slowdown": 0.0}
    hot = {"gpu_sm_clock": 990.0, "gpu_max_sm_clock": 1980.0, "gpu_slowdown": 1.0}
    step = judge(rank(0, values=fine), rank(1, values=fine), rank(2, values=hot))["slow.clocks"]
    assert (step.state, step.share) == (State.WRONG, 0.5)
    assert step.evidence == ("1 of 3 ranks; the lowest is rank 2 on n1 with 990 of 1980 MHz",)
    low = {**hot, "gpu_slowdown": 0.0}
    assert judge(rank(0, values=fine), rank(1, values=fine), rank(2, values=low))["slow.clocks"].state is State.WARNING


def test_phases_that_are_measured_later_than_the_run_fill_it():
    (only,) = read_ranks([rank(0, forward=80, backward=120)])
    assert sum(only.parts.values()) == pytest.approx(1)


@pytest.mark.parametrize("odd", [{}, {"values": None}, {"values": {"total_ms": 0}}, {"values": {"step_ms": 5}}])
def test_ranks_without_times_are_left_out(odd):
    assert read_ranks([{"rank": 0, "node": None, **odd}]) == ()
    assert judge({"rank": 0, **odd})["slow.telemetry"].state is State.UNSEEN


def test_few_seconds_and_missing_ranks_are_said():
    assert judge(rank(0, seconds=1), rank(1, seconds=1))["slow.telemetry"].state is State.WARNING
    assert judge(rank(0), rank(1), of=8)["slow.telemetry"].state is State.UNSEEN


def test_one_rank_is_compared_with_none():
    assert find_straggler(read_ranks([rank(0)])) is None
    assert judge(rank(0))["slow.straggler"].state is State.ABSENT
