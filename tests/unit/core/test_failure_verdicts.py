"""The verdict on a failed attempt: when one is needed, what it proves, and how long a restart waits for it."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from windlass.core.lifecycle.events import (
    Admit,
    Cancel,
    Diagnosed,
    Event,
    Exit,
    GangGone,
    MemberExited,
    NodeLost,
    NotLaunched,
    Preempt,
    Resume,
    Started,
    Submitted,
    Suspend,
)
from windlass.core.lifecycle.failure import VERDICT_WAIT_MS, needs_diagnosis
from windlass.core.lifecycle.state_machine import step
from windlass.core.lifecycle.transitions import can_recover_in_place, create_state
from windlass.core.model.diagnosed_cause import (
    AVOID_NODE,
    CERTAIN,
    JOB_SCOPE,
    MAX_TEXT,
    NODE_SCOPE,
    POSSIBLE,
    STOP,
    DiagnosedCause,
    clip_text,
    is_lasting,
    node_to_avoid,
    proven_bad_node,
)
from windlass.core.model.job import Job, RestartPolicy, Role, VerdictUse
from windlass.core.model.status import JobState, Phase, Placement, Target
from windlass.diagnose.diagnosis import Advice, CauseScope, Certainty

RUNS: tuple[Event, ...] = (Submitted(), Admit(Placement({"worker": ("n1",)})), Started(1))
FAILED = MemberExited(1, 0, Exit(code=1, detail="rank 0 exited with 1"))
BAD_NODE = DiagnosedCause(1, "GPU 3 fell off the bus", "xid-79", CERTAIN, NODE_SCOPE, AVOID_NODE, node="n1")


def state_after(*events: Event, use: VerdictUse = VerdictUse.TELL, restarts: int = 2, now: int = 0) -> JobState:
    policy = RestartPolicy(user_limit=restarts, verdict=use)
    state = create_state("j-1", 1, Job("j", (Role(),), restart=policy), 0)
    for event in events:
        state, _ = step(state, event, now)
    return state


def test_the_core_has_the_words_of_the_diagnosis() -> None:
    assert {STOP, AVOID_NODE} < set(Advice)
    assert {CERTAIN, POSSIBLE} < set(Certainty)
    assert {NODE_SCOPE, JOB_SCOPE} < set(CauseScope)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([FAILED], False),  # its processes are being stopped
        ([FAILED, GangGone(1)], True),  # and it has started again at once
        ([NodeLost("n1"), GangGone(1)], True),
        ([Preempt("for k"), GangGone(1)], True),
        ([NodeLost("n1"), GangGone(1), Diagnosed(BAD_NODE)], False),
        ([Cancel(), GangGone(1)], False),
        ([Suspend(), GangGone(1)], False),
        ([NodeLost("n1"), Suspend(), GangGone(1), Resume()], False),
    ],
)
def test_an_attempt_is_diagnosed_once_after_its_last_process(events: Sequence[Event], expected: bool) -> None:
    assert needs_diagnosis(state_after(*RUNS, *events).status) == expected


def test_a_launch_that_was_not_performed_has_nothing_to_diagnose() -> None:
    state = state_after(*RUNS[:2], NotLaunched(1, "the disk is full"))
    assert state.status.phase is Phase.QUEUED
    assert not needs_diagnosis(state.status)


def test_the_last_failure_is_diagnosed_too() -> None:
    state = state_after(*RUNS, FAILED, GangGone(1), restarts=0)
    assert (state.status.phase, needs_diagnosis(state.status)) == (Phase.FAILED, True)
    told = DiagnosedCause(1, "No module named foo", "import-error", CERTAIN, JOB_SCOPE, STOP)
    after, commands = step(state, Diagnosed(told), 9)
    assert (after.status.phase, after.status.message, after.status.diagnosis) == (
        Phase.FAILED,
        "rank 0 exited with 1",
        told,
    )
    assert commands == ()


@pytest.mark.parametrize(("use", "wait"), [(VerdictUse.TELL, None), (VerdictUse.ACT, VERDICT_WAIT_MS)])
def test_only_a_restart_that_obeys_the_verdict_waits_for_it(use: VerdictUse, wait: int | None) -> None:
    assert state_after(*RUNS, FAILED, GangGone(1), use=use).status.not_before == wait


def test_no_restart_after_a_preemption_waits_for_a_verdict() -> None:
    state = state_after(*RUNS, Preempt("for k"), GangGone(1), use=VerdictUse.ACT)
    assert (state.status.phase, state.status.not_before) == (Phase.QUEUED, None)


def test_a_verdict_during_the_stop_changes_what_follows_the_stop() -> None:
    futile = DiagnosedCause(1, "No module named foo", "import-error", CERTAIN, JOB_SCOPE, STOP)
    ended = state_after(*RUNS, FAILED, Diagnosed(futile), use=VerdictUse.ACT)
    assert ended.status.target is Target.FAIL
    moved = state_after(*RUNS, FAILED, Diagnosed(BAD_NODE), use=VerdictUse.ACT)
    assert (moved.status.target, moved.status.faulty_nodes) == (Target.REQUEUE, ("n1",))


def test_a_late_verdict_leaves_the_attempt_that_runs() -> None:
    runs_again = (FAILED, GangGone(1), Diagnosed(DiagnosedCause(1, "nothing known")), Started(2))
    state = state_after(*RUNS, *runs_again[:2], use=VerdictUse.TELL)
    assert state.status.generation == 2
    after, commands = step(state, Diagnosed(BAD_NODE), 5)
    assert (after.status.phase, after.status.faulty_nodes, commands) == (Phase.ADMITTED, (), ())


def test_a_verdict_after_the_restart_says_that_it_is_late() -> None:
    again = (FAILED, GangGone(1), Diagnosed(DiagnosedCause(0, "nothing known")))
    state = state_after(*RUNS, *again, use=VerdictUse.ACT)
    state = replace(state, status=replace(state.status, phase=Phase.RUNNING, generation=2))
    after, commands = step(state, Diagnosed(BAD_NODE), 5)
    told = after.status.diagnosis
    assert told is not None
    assert told.is_late
    assert told.text.startswith("GPU 3 fell off the bus (late: attempt 2 had started")
    assert (after.status.phase, after.status.faulty_nodes, commands) == (Phase.RUNNING, ("n1",), ())


def test_only_a_certain_cause_in_a_node_makes_a_job_avoid_it() -> None:
    assert node_to_avoid(BAD_NODE) == "n1"
    assert node_to_avoid(replace(BAD_NODE, certainty="likely")) == ""
    assert node_to_avoid(replace(BAD_NODE, scope="fabric")) == ""
    assert not is_lasting(DiagnosedCause(1, "nothing known"))


def test_output_of_the_job_alone_proves_no_node_bad() -> None:
    assert proven_bad_node(BAD_NODE) == ""
    assert proven_bad_node(replace(BAD_NODE, is_confirmed=True)) == "n1"
    assert proven_bad_node(replace(BAD_NODE, is_confirmed=True, certainty="likely")) == ""


def test_a_text_is_one_line_of_bounded_length() -> None:
    assert clip_text("a\n  b\tc") == "a b c"
    assert len(clip_text("é" * 2_000).encode()) <= MAX_TEXT


def test_equal_failures_at_the_same_step_end_a_job_that_obeys_the_verdict() -> None:
    alike = DiagnosedCause(1, "killed after step 3", "signal-9", POSSIBLE, "rank", "retry", equal_failures=3)
    state = state_after(*RUNS, FAILED, GangGone(1), Diagnosed(alike), use=VerdictUse.ACT)
    assert state.status.phase is Phase.FAILED
    assert state.status.message.endswith("not started again (restart.verdict): killed after step 3")
    fewer = state_after(*RUNS, FAILED, GangGone(1), Diagnosed(replace(alike, equal_failures=2)), use=VerdictUse.ACT)
    assert fewer.status.phase is Phase.RESTARTING
    told = state_after(*RUNS, FAILED, GangGone(1), Diagnosed(alike), use=VerdictUse.TELL)
    assert told.status.phase is not Phase.FAILED


def test_equal_failures_on_a_bad_node_make_the_job_avoid_it_instead() -> None:
    state = state_after(*RUNS, FAILED, GangGone(1), Diagnosed(replace(BAD_NODE, equal_failures=3)), use=VerdictUse.ACT)
    assert (state.status.phase, state.status.faulty_nodes) == (Phase.QUEUED, ("n1",))


def test_no_failure_is_repaired_in_place_where_the_verdict_decides() -> None:
    assert can_recover_in_place(state_after(*RUNS), Exit(code=1), 0)
    assert not can_recover_in_place(state_after(*RUNS, use=VerdictUse.ACT), Exit(code=1), 0)
