"""A launch that was decided and not performed is taken back: the gang queues again as if it had not been admitted."""

import pytest

from windlass.core.lifecycle import events as e
from windlass.core.lifecycle.state_machine import step
from windlass.core.lifecycle.transitions import create_state
from windlass.core.model.job import Job, RestartPolicy, Role
from windlass.core.model.status import JobState, Phase, Placement

JOB = Job("j", (Role(resources={"gpu": 1}),), restart=RestartPolicy(user_limit=3), deadline=9_000_000)
ON = Placement({"worker": ("n1",)})
REFUSED = "its state could not be written: the webhook is down"


def after(state: JobState, *events: e.Event, start: int = 1_000) -> JobState:
    """The state after events that are a second apart."""
    for number, event in enumerate(events):
        state, _ = step(state, event, start + 1_000 * number)
    return state


def queued() -> JobState:
    return after(create_state("j-1", 1, JOB, 0), e.Submitted())


def test_the_gang_gives_its_nodes_back_without_a_charge() -> None:
    before = queued()
    status = after(before, e.Admit(ON), e.NotLaunched(1, REFUSED), start=5_000).status
    assert (status.phase, status.placement, status.is_gone) == (Phase.QUEUED, None, True)
    assert (status.infrastructure_failures, status.user_failures, status.preemptions) == (0, 0, 0)
    assert (status.failed_launches, status.backoff_step) == (1, 0)
    assert (status.generation, status.run_time, status.service, status.stopped_at) == (0, 0, 0, 0)
    assert (status.first_admitted_at, status.admitted_at, status.launched_at) == (None, None, None)
    assert status.queued_at == before.status.queued_at, "it keeps its place"
    assert (status.reason, status.message) == ("NotLaunched", REFUSED)


def test_the_wait_before_the_next_admission_grows() -> None:
    state, waits = queued(), []
    for now in (1_000_000, 2_000_000, 3_000_000, 4_000_000):
        state = after(state, e.Timer(), e.Admit(ON), e.NotLaunched(1, REFUSED), start=now)
        waits.append((state.status.not_before or now + 1_000) - now - 1_000)
    assert waits == [0, 1_000, 2_000, 4_000]


def test_a_second_withdrawal_gives_another_status_so_that_it_is_written() -> None:
    first = after(queued(), e.Admit(ON), e.NotLaunched(1, REFUSED))
    second = after(first, e.Admit(ON), e.NotLaunched(1, REFUSED), start=9_000)
    assert first.status != second.status


def test_a_restart_in_place_that_is_not_launched_counts_the_time_before_it() -> None:
    events = (e.Admit(ON), e.Started(1), e.MemberExited(1, 0, e.Exit(code=1)), e.GangGone(1))
    again = after(queued(), *events, start=1_000)
    assert (again.status.phase, again.status.generation) == (Phase.ADMITTED, 2)
    status = after(again, e.NotLaunched(2, REFUSED), start=7_000).status
    assert (status.phase, status.generation, status.user_failures) == (Phase.QUEUED, 1, 1)
    assert (status.run_time, status.first_admitted_at) == (3_000, 1_000)


@pytest.mark.parametrize("generation", [0, 2])
def test_a_report_of_another_generation_changes_nothing(generation: int) -> None:
    state = after(queued(), e.Admit(ON))
    assert after(state, e.NotLaunched(generation, REFUSED)) == state


def test_a_gang_that_is_being_stopped_is_left_alone() -> None:
    state = after(queued(), e.Admit(ON), e.Cancel())
    assert after(state, e.NotLaunched(1, REFUSED)) == state
