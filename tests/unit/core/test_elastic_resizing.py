"""The size of a gang follows its placement, and changes between two generations."""

from windlass.core.lifecycle import events as e
from windlass.core.lifecycle.commands import Launch, Stop
from windlass.core.lifecycle.state_machine import step
from windlass.core.lifecycle.transitions import create_state
from windlass.core.model.elastic_size import job_in_size, merged_placement
from windlass.core.model.gang import running_of
from windlass.core.model.job import Job, Role
from windlass.core.model.status import FailureClass, JobState, Phase, Placement, Target

ELASTIC = Job("j", (Role(replicas=2, procs=3, resources={"gpu": 1}, min_replicas=1, max_replicas=4),), grace=5_000)
TWO = Placement({"worker": ("n1", "n2")})
THREE = Placement({"worker": ("n1", "n2", "n3")})
ONE = Placement({"worker": ("n2",)})


def state_after(*events: e.Event, job: Job = ELASTIC, now: int = 0) -> JobState:
    """State of a job after these events, each a second after the one before."""
    state = create_state("j-1", 1, job, now)
    for seconds, event in enumerate(events, start=1):
        state, _ = step(state, event, now + seconds * 1_000)
    return state


RUNS = (e.Submitted(), e.Admit(TWO), e.Started(1))


def test_a_job_has_the_size_of_its_placement() -> None:
    assert (job_in_size(ELASTIC, THREE).members, job_in_size(ELASTIC, THREE).world_size) == (3, 9)
    assert job_in_size(ELASTIC, None) is ELASTIC


def test_a_role_that_is_not_elastic_keeps_its_size() -> None:
    job = Job("j", (Role("ps", 1), Role("worker", 2, max_replicas=3)))
    placement = Placement({"ps": ("n1",), "worker": ("n1", "n2", "n3")})
    assert [role.replicas for role in job_in_size(job, placement).roles] == [1, 3]


def test_a_resized_gang_is_stopped_saves_and_continues_in_its_new_size() -> None:
    state, commands = step(state_after(*RUNS), e.Resized(THREE, "n3 is idle"), 10_000)
    assert commands == (Stop("j-1", 1, 5_000),)
    assert (state.status.phase, state.status.reason, state.status.target) == (
        Phase.RESTARTING,
        "Resized",
        Target.RESIZE,
    )
    state, commands = step(state, e.GangGone(1), 12_000)
    assert commands == (Launch("j-1", 2, THREE),)
    assert (state.status.placement, state.status.resize_to, state.status.resized_at) == (THREE, None, 10_000)
    assert state.status.last_failure is None
    assert state.status.admitted_at == 2_000, "it is still the same allocation"


def test_all_members_of_the_new_size_have_to_succeed() -> None:
    state = state_after(*RUNS, e.Resized(THREE, ""), e.GangGone(1), e.Started(2))
    for member in (0, 1):
        state, _ = step(state, e.MemberExited(2, member, e.Exit(code=0)), 20_000)
    assert state.status.target is None
    state, _ = step(state, e.MemberExited(2, 2, e.Exit(code=0)), 20_000)
    assert state.status.target is Target.SUCCEED


def test_a_gang_holds_old_and_new_nodes_until_it_has_stopped() -> None:
    grows = state_after(*RUNS, e.Resized(THREE, ""))
    shrinks = state_after(*RUNS, e.Resized(ONE, ""))
    for state, held in ((grows, THREE), (shrinks, TWO)):
        running = running_of(state, TWO)
        assert running.placement == held
        assert running.demands[0].count == len(held.nodes["worker"])
        assert not running.stopping


def test_a_gang_holds_the_larger_part_of_a_node_in_both_placements() -> None:
    before = Placement({"worker": ("n1", "n1", "n2")}, {"worker": ((0,), (1,), (0,))})
    after = Placement({"worker": ("n1", "n2", "n2")}, {"worker": ((1,), (0,), (1,))})
    held = merged_placement(before, after)
    assert sorted(zip(held.nodes["worker"], held.devices["worker"], strict=True)) == [
        ("n1", (0,)),
        ("n1", (1,)),
        ("n2", (0,)),
        ("n2", (1,)),
    ]


def test_the_loss_of_a_node_of_the_new_placement_requeues_the_gang() -> None:
    state = state_after(*RUNS, e.Resized(THREE, ""), e.NodeLost("n3"), e.GangGone(1))
    assert (state.status.phase, state.status.reason, state.status.resize_to) == (Phase.QUEUED, "NodeLost", None)


def test_the_loss_of_a_node_that_the_gang_leaves_changes_nothing() -> None:
    state = state_after(*RUNS, e.Resized(ONE, ""), e.NodeLost("n1"), e.GangGone(1))
    assert (state.status.phase, state.status.placement) == (Phase.ADMITTED, ONE)


def test_a_gang_preempted_during_a_resize_releases_everything_and_keeps_its_position() -> None:
    state = state_after(*RUNS, e.Resized(THREE, ""), e.Preempt("for k-2"))
    assert running_of(state, TWO).stopping
    assert running_of(state, TWO).placement == TWO
    state, _ = step(state, e.GangGone(1), 9_000)
    assert (state.status.phase, state.status.queued_at, state.status.preemptions) == (Phase.QUEUED, 1_000, 1)


def test_a_suspension_or_cancellation_during_a_resize_takes_effect() -> None:
    assert state_after(*RUNS, e.Resized(ONE, ""), e.Suspend(), e.GangGone(1)).status.phase is Phase.SUSPENDED
    assert state_after(*RUNS, e.Resized(ONE, ""), e.Cancel(), e.GangGone(1)).status.phase is Phase.FAILED


def test_a_gang_in_backoff_takes_its_new_size_when_it_starts_again() -> None:
    failing = e.MemberExited(1, 0, e.Exit(signal=9))
    again = (e.GangGone(1), e.Started(2), e.MemberExited(2, 0, e.Exit(signal=9)), e.GangGone(2))
    state = state_after(*RUNS, failing, *again, e.Resized(THREE, ""))
    assert state.status.not_before is not None
    state, commands = step(state, e.Timer(), state.status.not_before)
    assert commands == (Launch("j-1", 3, THREE),)


def test_a_failure_before_the_resize_still_has_its_backoff() -> None:
    failing = e.MemberExited(2, 0, e.Exit(signal=9))
    state = state_after(*RUNS, e.MemberExited(1, 0, e.Exit(signal=9)), e.GangGone(1), e.Started(2), failing)
    state, _ = step(state, e.Resized(ONE, ""), 9_000)
    state, commands = step(state, e.GangGone(2), 9_500)
    assert not commands
    assert state.status.placement == ONE
    assert state.status.not_before == 10_500


def test_the_time_of_an_ended_allocation_is_added_to_the_service() -> None:
    state = state_after(*RUNS, e.Preempt("for k-2"), e.GangGone(1))
    assert state.status.run_time == 3_000
    state = state_after(
        *RUNS, e.Preempt("for k-2"), e.GangGone(1), e.Admit(ONE), e.Started(2), e.Cancel(), e.GangGone(2)
    )
    assert state.status.run_time == 6_000


def test_a_save_is_known_until_the_allocation_ends() -> None:
    state = state_after(*RUNS, e.Saved(1, 3_500), e.Saved(1, 3_400), e.Saved(0, 3_600))
    assert state.status.saved_at == 3_500
    assert running_of(state, TWO).saved_at == 3_500
    state, _ = step(state, e.NodeLost("n1"), 8_000)
    assert state.status.last_failure is not None
    assert state.status.last_failure.kind is FailureClass.INFRASTRUCTURE
    state, _ = step(state, e.Saved(1, 8_500), 9_000)
    assert state.status.saved_at == 8_500, "saved on its way out"
    assert step(state, e.GangGone(1), 9_000)[0].status.saved_at is None
