"""A job that is ended without grace: the lifecycle decides and stores it."""

from __future__ import annotations

from windlass.backends.port import ClusterChanged, Recovery
from windlass.controller.controller import Controller
from windlass.core.lifecycle import events as e
from windlass.core.lifecycle.commands import Launch, Stop
from windlass.core.lifecycle.state_machine import step
from windlass.core.lifecycle.transitions import create_state
from windlass.core.model.gang import running_of
from windlass.core.model.job import Job, Role
from windlass.core.model.node import Node
from windlass.core.model.queue import Queue
from windlass.core.model.status import JobState, Phase, Placement, Target

PLACE = Placement({"worker": ("n1",)})
GRACE = 30_000
KILL = Stop("j-1", 1, 0)


def queued() -> JobState:
    job = Job("j", (Role(resources={"gpu": 1}),), grace=GRACE)
    return step(create_state("j-1", 1, job, 0), e.Submitted(), 0)[0]


def running() -> JobState:
    return step(step(queued(), e.Admit(PLACE), 0)[0], e.Started(1), 0)[0]


def test_a_killed_gang_is_stopped_without_its_grace():
    state, commands = step(running(), e.Kill("ada"), 5)
    assert commands == (KILL,)
    assert (state.status.target, state.status.message) == (Target.FAIL, "cancelled by ada")
    state, _ = step(state, e.GangGone(1), 6)
    assert (state.status.phase, state.status.reason) == (Phase.FAILED, "Cancelled")


def test_a_kill_cuts_the_grace_of_a_gang_that_is_being_stopped():
    for request in (e.Cancel("bob"), e.Suspend(), e.Preempt("for k"), e.MemberExited(1, 0, e.Exit(code=0))):
        state, _ = step(running(), request, 5)
        state, commands = step(state, e.Kill("ada"), 6)
        assert commands == (KILL,), request
        assert state.status.target in (Target.FAIL, Target.SUCCEED)
        assert state.status.stopping_since == 5


def test_a_second_kill_stops_the_gang_again():
    state, _ = step(running(), e.Kill(), 5)
    assert step(state, e.Kill(), 6) == (state, (KILL,))


def test_a_killed_job_that_has_no_processes_ends_at_once():
    state, commands = step(queued(), e.Kill("ada"), 5)
    assert (state.status.phase, state.status.reason, commands) == (Phase.FAILED, "Cancelled", ())
    assert step(state, e.Kill(), 6) == (state, ())


def test_a_recovered_controller_repeats_the_stop_without_grace():
    state, _ = step(running(), e.Kill(), 5)
    cluster = ClusterChanged((Node("n1", {"gpu": 1}),), (Queue("default"),))
    changes = Controller(Recovery(cluster, (state,)), lambda _: None).take_over(6)
    assert [command for command in changes.commands if not isinstance(command, Launch)] == [KILL]


def test_the_nodes_of_a_killed_gang_are_expected_back_at_once():
    state, _ = step(running(), e.Cancel(), 5)
    assert running_of(state, PLACE).ends_by == 5 + GRACE
    state, _ = step(state, e.Kill(), 6)
    assert running_of(state, PLACE).ends_by == 5
