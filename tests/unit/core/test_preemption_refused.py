"""A preemption whose gang cannot be evicted is given up: the gang continues and is excluded for a while."""

from windlass.core.lifecycle import events as e
from windlass.core.lifecycle.state_machine import step
from windlass.core.lifecycle.transitions import UNEVICTABLE_MS, create_state
from windlass.core.model.gang import attained_service, running_of
from windlass.core.model.job import Job, Role
from windlass.core.model.status import JobState, Phase, Placement

JOB = Job("j", (Role(replicas=2, resources={"gpu": 1}),))
ON = Placement({"worker": ("n1", "n2")})
BUDGET = "the budget web-pdb allows no eviction"


def state_after(*events: e.Event) -> JobState:
    state = create_state("j-1", 1, JOB, 0)
    for now, event in enumerate((e.Submitted(), e.Admit(ON), e.Started(1), *events), start=1):
        state, _ = step(state, event, now)
    return state


def test_a_gang_that_cannot_be_evicted_continues() -> None:
    status = state_after(e.Preempt("for j-2"), e.PreemptionRefused(1, BUDGET)).status
    assert (status.phase, status.generation, status.target, status.preemptions) == (Phase.RUNNING, 1, None, 0)
    assert (status.reason, status.message) == ("PreemptionRefused", BUDGET)
    assert status.unevictable_until == 5 + UNEVICTABLE_MS


def test_an_unevictable_gang_is_no_victim_until_the_given_time() -> None:
    state = state_after(e.Preempt("for j-2"), e.PreemptionRefused(1, BUDGET))
    run = running_of(state, ON)
    assert run.is_unevictable(5 + UNEVICTABLE_MS - 1)
    assert not run.is_unevictable(5 + UNEVICTABLE_MS)
    assert not run.leaving


def test_a_report_of_an_older_generation_changes_nothing() -> None:
    assert state_after(e.Preempt("for j-2"), e.PreemptionRefused(0, BUDGET)).status.phase is Phase.RESTARTING


def test_a_gang_that_ends_for_another_reason_still_ends() -> None:
    assert state_after(e.NodeLost("n1"), e.PreemptionRefused(1, BUDGET)).status.phase is Phase.RESTARTING


def test_service_is_counted_by_the_gpus_held() -> None:
    state = state_after()
    assert attained_service(state, 1_002) == 2 * 1000 * 1_000
    state, _ = step(state, e.Preempt("for j-2"), 1_002)
    state, _ = step(state, e.GangGone(1), 2_002)
    assert (state.status.run_time, state.status.service) == (2_000, 2 * 1000 * 2_000)
