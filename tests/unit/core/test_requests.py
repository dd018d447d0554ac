"""What users ask for of a job: suspend and resume."""

from windlass.core.lifecycle.events import Exit, GangGone, MemberExited, Resume, Suspend
from windlass.core.lifecycle.state_machine import next_due, step
from windlass.core.model.job import Job, RestartPolicy, Role
from windlass.core.model.status import JobState, Phase, Placement, Status

POLICY = RestartPolicy(infrastructure_limit=9)
PLACEMENT = Placement({"worker": ("n1",)})


def failing(step_count: int) -> JobState:
    """A running job whose next failure in a row has a long backoff."""
    status = Status(
        phase=Phase.RUNNING,
        generation=4,
        running_since=0,
        backoff_step=step_count,
        placement=PLACEMENT,
        gone=False,
        queued_at=0,
        admitted_at=0,
    )
    return JobState("j-1", 1, Job("j", (Role(),), restart=POLICY), status)


def test_a_resumed_job_does_not_wait_out_an_old_backoff() -> None:
    state = failing(6)
    for event in (MemberExited(4, 0, Exit(signal=9)), GangGone(4)):
        state, _ = step(state, event, 10)
    assert next_due(state) is not None
    state, _ = step(state, Suspend(), 20)
    state, _ = step(state, Resume(), 30)
    assert (state.status.phase, state.status.not_before, state.status.queued_at) == (Phase.QUEUED, None, 30)
    assert state.status.backoff_step == 0


def test_a_job_resumed_while_it_stops_does_not_wait_out_an_old_backoff() -> None:
    state = failing(6)
    for event in (Suspend(), Resume(), GangGone(4)):
        state, _ = step(state, event, 10)
    assert (state.status.phase, state.status.not_before) == (Phase.QUEUED, None)
