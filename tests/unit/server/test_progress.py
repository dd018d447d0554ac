"""Training progress of a job from its ranks."""

import json

from windlass.server.progress import summarize_progress

QUIET = {"rank": 0, "node": "n1", "pid": 7, "printed_at": 9_000}


def rank(number, step=41, at=10_000, busy=100.0, **values):
    own = {"rank_busy_ms": busy, "rank_memory": 1e9 + number, **values}
    return {**QUIET, "rank": number, "step": step, "phase": "forward", "at": at, "values": own, "reported_step": 40}


def test_a_job_without_ranks_has_no_progress():
    assert summarize_progress([]) is None


def test_progress_contains_the_step_and_its_duration():
    metrics = {"loss": 1.5, "steps": 100.0, "step_ms": 200.0, "samples_per_second": 64.0, "forward_ms": 120.0}
    seen = summarize_progress([rank(0, at=9_000, **metrics), rank(1, at=9_800), rank(2, step=40)])
    assert (seen["step"], seen["steps"], seen["loss"], seen["eta"]) == (41, 100, 1.5, 59 * 200)
    assert (seen["phases"], seen["memory"]) == ({"forward": 120.0, "outside": 80.0}, 1e9 + 2)
    assert (seen["heartbeat_at"], seen["behind"]) == (10_000, 2)
    assert seen["ranks"][1]["values"] == {"busy_ms": 100.0, "memory": 1e9 + 1}


def test_of_ranks_in_one_step_the_one_in_the_earlier_phase_is_behind():
    waits, last = {**rank(0, at=9_000), "phase": "backward"}, {**rank(1, at=9_500), "phase": "outside"}
    assert summarize_progress([waits, last])["behind"] == 1


def uneven(number, own, waits):
    """A rank whose step has its own code and a backward pass that waits for the last rank, for ten steps."""
    totals = {"rank_total_ms": 10 * (own + waits), "rank_total_backward_ms": 10 * waits}
    step = {"rank_step_ms": own + waits, "rank_wait_ms": 6.0, "rank_last_backward_ms": waits}
    return rank(number, busy=own + waits - 6.0, **totals, **step)


def test_a_rank_for_which_others_wait_in_a_collective_is_named_and_their_waiting_is_no_work():
    seen = summarize_progress([uneven(0, 205.0, 410.0), uneven(1, 205.0, 412.0), uneven(2, 610.0, 5.0)])
    assert seen["slow"] == [2]
    assert [line["values"]["busy_ms"] for line in seen["ranks"]] == [204.0, 204.0, 609.0]
    assert [line["values"]["wait_ms"] for line in seen["ranks"]] == [411.0, 413.0, 6.0]


def test_even_ranks_are_not_slow():
    assert summarize_progress([uneven(0, 205.0, 6.0), uneven(1, 206.0, 5.0)])["slow"] == []
    assert summarize_progress([uneven(0, 205.0, 6.0)])["slow"] == []
    assert summarize_progress([rank(0), rank(1, busy=130.0), rank(2)])["slow"] == []


def test_a_script_without_heartbeats_shows_only_the_time_of_its_output():
    seen = summarize_progress([QUIET, {**QUIET, "rank": 1, "printed_at": None}])
    assert (seen["step"], seen["heartbeat_at"], seen["behind"], seen["printed_at"]) == (None, None, None, 9_000)


def test_a_loss_that_is_not_finite_removes_no_other_measurement():
    nan, inf = float("nan"), float("inf")
    seen = summarize_progress([rank(0, loss=nan, steps=inf, step_ms=nan, forward_ms=120.0), rank(1, busy=nan), rank(2)])
    assert (seen["step"], seen["loss"], seen["steps"], seen["eta"]) == (41, None, None, None)
    assert (seen["phases"], seen["slow"]) == ({"forward": 120.0}, [])
    json.dumps(seen, allow_nan=False)
