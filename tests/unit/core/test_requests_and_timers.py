"""Requests of users, and timers: suspend, resume, deadline, start timeout."""

from windlass.core.lifecycle.commands import Forget, Stop
from windlass.core.lifecycle.events import Admit, Exit, GangGone, MemberExited, Resume, Started, Suspend, Timer
from windlass.core.lifecycle.state_machine import next_due, step
from windlass.core.model.gang import pending_of
from windlass.core.model.job import Job, RestartPolicy, Role, SuccessPolicy
from windlass.core.model.status import JobState, Phase, Placement, Status, Target

POLICY = RestartPolicy(infrastructure_limit=9)
PLACEMENT = Placement({"worker": ("n1",)})


def failing(step_count: int) -> JobState:
    """A running job whose next consecutive failure has a long backoff."""
    status = Status(
        phase=Phase.RUNNING,
        generation=4,
        running_since=0,
        backoff_step=step_count,
        failed_launches=step_count,
        placement=PLACEMENT,
        is_gone=False,
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
    assert (state.status.backoff_step, state.status.failed_launches) == (0, 0)


def test_a_job_resumed_while_it_stops_does_not_wait_out_an_old_backoff() -> None:
    state = failing(6)
    for event in (Suspend(), Resume(), GangGone(4)):
        state, _ = step(state, event, 10)
    assert (state.status.phase, state.status.not_before) == (Phase.QUEUED, None)


def test_the_deadline_counts_from_the_first_admission_or_the_last_resume() -> None:
    job = Job("j", (Role(),), deadline=1_000, start_timeout=None)
    state = JobState("j-1", 1, job, Status(phase=Phase.QUEUED, queued_at=0))
    state, _ = step(state, Admit(PLACEMENT), 50)
    assert next_due(state) == 1_050
    state, _ = step(state, Started(1), 90)
    assert next_due(state) == 1_050
    for event in (Suspend(), GangGone(1), Resume()):
        state, _ = step(state, event, 200)
    assert next_due(state) is None
    state, _ = step(state, Admit(PLACEMENT), 300)
    assert next_due(state) == 1_300


def test_a_start_that_takes_too_long_moves_the_gang_away_from_the_slow_nodes() -> None:
    placement = Placement({"worker": ("n1", "n2", "n2")})
    job = Job("j", (Role(replicas=3),), start_timeout=1_000, restart=POLICY)
    state = JobState("j-1", 1, job, Status(phase=Phase.QUEUED, queued_at=0))
    state, _ = step(state, Admit(placement), 50)
    assert next_due(state) == 1_050
    state, _ = step(state, Timer(), 1_050)
    assert (state.status.target, state.status.reason) == (Target.REQUEUE, "StartTimeout")
    state, _ = step(state, GangGone(1, unstarted=(1, 2)), 1_200)
    assert (state.status.phase, state.status.avoided_nodes, next_due(state)) == (Phase.QUEUED, ("n2",), 2_200)
    assert [demand.avoid for demand in pending_of(state).demands] == [("n2",)]
    later, _ = step(state, Timer(), 2_200)
    assert (later.status.avoided_nodes, next_due(later)) == ((), None)
    for event in (Admit(PLACEMENT), Started(2)):
        state, _ = step(state, event, 1_300)
    assert (state.status.avoided_nodes, next_due(state)) == ((), None)


def test_all_nodes_are_avoided_if_the_slow_ones_are_unknown() -> None:
    job = Job("j", (Role(replicas=2),), start_timeout=1_000, restart=POLICY)
    state = JobState("j-1", 1, job, Status(phase=Phase.QUEUED, queued_at=0))
    for event, now in ((Admit(Placement({"worker": ("n1", "n2")})), 0), (Timer(), 1_000), (GangGone(1), 1_000)):
        state, _ = step(state, event, now)
    assert state.status.avoided_nodes == ("n1", "n2")


def test_a_gang_that_has_started_has_no_start_timeout() -> None:
    state = JobState("j-1", 1, Job("j", (Role(),), start_timeout=1_000), Status(phase=Phase.QUEUED, queued_at=0))
    for event in (Admit(PLACEMENT), Started(1)):
        state, _ = step(state, event, 0)
    assert next_due(state) is None


def completing(ttl: int, members: int = 2) -> JobState:
    """A job whose first member has decided its end at 100, while the others still run."""
    job = Job("j", (Role("lead"), Role(replicas=members - 1)), ttl=ttl, success=SuccessPolicy(("lead",)))
    placement = Placement({"lead": ("n1",), "worker": ("n1",) * (members - 1)})
    status = Status(phase=Phase.RUNNING, generation=1, placement=placement, is_gone=False, admitted_at=0)
    state, _ = step(JobState("j-1", 1, job, status), MemberExited(1, 0, Exit(code=0)), 100)
    return state


def test_a_time_to_live_that_ends_while_pods_still_run_stops_them_and_removes_the_job() -> None:
    state = completing(ttl=50)
    assert (state.status.target, state.status.ended_at, next_due(state)) == (Target.SUCCEED, 100, 150)
    state, commands = step(state, Timer(), 150)
    assert commands == (Stop("j-1", 1, state.job.grace),)
    assert (state.status.expired, next_due(state)) == (True, None)
    state, _ = step(state, GangGone(1), 170)
    assert (state.status.phase, state.status.finished_at, next_due(state)) == (Phase.SUCCEEDED, 170, 150)
    assert step(state, Timer(), 170) == (state, (Forget("j-1"),))


def test_the_time_to_live_counts_from_the_decision_on_the_end() -> None:
    state, _ = step(completing(ttl=1_000), GangGone(1), 900)
    assert (state.status.phase, state.status.finished_at, next_due(state)) == (Phase.SUCCEEDED, 900, 1_100)
    assert step(state, Timer(), 1_099) == (state, ())
    assert step(state, Timer(), 1_100) == (state, (Forget("j-1"),))
