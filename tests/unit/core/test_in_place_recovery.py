"""Failures that a gang's own agents recover: the generation continues, and the limits count them."""

from windlass.core.lifecycle import events as e
from windlass.core.lifecycle.state_machine import step
from windlass.core.lifecycle.transitions import create_state
from windlass.core.model.job import Job, RestartPolicy, Role
from windlass.core.model.status import JobState, Phase, Placement

JOB = Job("j", (Role(replicas=2),), restart=RestartPolicy(user_limit=1))
KILLED = e.Exit(signal=9, detail="rank 3 (worker/1) on n2 killed by SIGKILL")
FAILED = e.Exit(code=7, detail="rank 0 (worker/0) on n1 exited with code 7")


def state_after(*events: e.Event) -> JobState:
    state = create_state("j-1", 1, JOB, 0)
    begins = (e.Submitted(), e.Admit(Placement({"worker": ("n1", "n2")})), e.Started(1))
    for now, event in enumerate((*begins, *events), start=1):
        state, _ = step(state, event, now)
    return state


def test_a_recovered_gang_continues_and_reports_the_failure() -> None:
    state = state_after(e.Recovered(1, 2, KILLED, 260), e.Recovered(1, 3, FAILED, 300))
    status = state.status
    assert (status.phase, status.generation, status.recoveries, status.agent_generation) == (Phase.RUNNING, 1, 2, 3)
    assert status.message == (
        "recovered in place 2×, last: rank 0 (worker/0) on n1 exited with code 7, back after 0.30 s"
    )


def test_limits_are_the_same_for_recoveries_and_restarts() -> None:
    state = state_after(e.Recovered(1, 2, KILLED, 260), e.Recovered(1, 3, FAILED, 300), e.MemberExited(1, 0, FAILED))
    status = state.status
    assert (status.user_failures, status.infrastructure_failures) == (2, 1)
    assert status.message.endswith("2 failures of the program, 1 allowed (restarts)")


def test_several_reports_of_one_recovery_count_once() -> None:
    state = state_after(e.Recovered(1, 2, KILLED, 260), e.Recovered(1, 2, KILLED, 290), e.Recovered(0, 9, KILLED, 1))
    assert (state.status.recoveries, state.status.infrastructure_failures) == (1, 1)


def test_a_gang_that_is_being_stopped_keeps_its_reason() -> None:
    state = state_after(e.Cancel("ada"), e.Recovered(1, 2, KILLED, 260))
    assert (state.status.recoveries, state.status.reason) == (1, "Cancelled")
