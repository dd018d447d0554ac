"""The transition table is total, obeys its declarations, and has terminal phases."""

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import get_args

import pytest

from windlass.core.lifecycle import events as e
from windlass.core.lifecycle import state_machine
from windlass.core.lifecycle.commands import Command, Forget, Launch, RestartMember, Stop
from windlass.core.lifecycle.diagram import render_mermaid, render_page, render_table
from windlass.core.lifecycle.state_machine import NO_OPS, TABLE, InvalidTransitionError, Row, next_due, step
from windlass.core.lifecycle.transitions import create_state
from windlass.core.model.diagnosed_cause import DiagnosedCause
from windlass.core.model.elastic_size import job_in_size, present_job
from windlass.core.model.job import (
    Dependency,
    Job,
    MemberRestart,
    RestartPolicy,
    RestartScope,
    Role,
    SuccessPolicy,
    SuccessRule,
    VerdictUse,
)
from windlass.core.model.status import HOLDING, TERMINAL, JobState, Phase, Placement, Target

EVENTS = get_args(e.Event)


def test_every_phase_and_event_has_a_row_or_is_a_declared_no_op() -> None:
    rows = [(source, row.on) for row in TABLE for source in row.sources]
    assert len(rows) == len(set(rows))
    assert not set(rows) & NO_OPS
    assert set(rows) | NO_OPS == set(product(Phase, EVENTS))


def test_a_handler_that_breaks_its_declaration_is_reported_with_its_history(monkeypatch: pytest.MonkeyPatch) -> None:
    lying = Row((Phase.CREATED,), e.Submitted, (), state_machine.t.on_submitted)
    monkeypatch.setitem(state_machine._ROWS, (Phase.CREATED, e.Submitted), lying)
    with pytest.raises(InvalidTransitionError, match="j-1: Submitted"):
        step(create_state("j-1", 1, Job("j", (Role(),)), 0), e.Submitted(), 0)


def test_every_arrow_of_the_diagram_is_reachable_and_no_other() -> None:
    walked = {(a, b) for seed in range(1_500) for a, b in _random_transitions(random.Random(seed)) if a is not b}  # noqa: S311 - not for secrets
    drawn = {(s, target) for row in TABLE for s in row.sources for target in row.targets if s is not target}
    assert walked == drawn


def test_the_diagram_names_every_phase_and_every_event_with_a_transition() -> None:
    picture, rows = render_mermaid(), render_table()
    for phase in Phase:
        assert phase.value in picture
    for row in TABLE:
        assert row.on.__name__ in rows


def test_the_documentation_shows_this_table(request: pytest.FixtureRequest) -> None:
    written = request.config.rootpath / "docs/reference/states.md"
    if request.config.getoption("--rewrite"):
        written.write_text(render_page())
    assert written.read_text() == render_page()


def _random_transitions(rng: random.Random) -> Iterator[tuple[Phase, Phase]]:
    """Yields the transitions of a job under random events at random times; checks invariants after each."""
    state, now = create_state("j-1", 1, _random_job(rng), 0), 0
    alive: set[int] = set()
    for _ in range(40):
        event = _random_event(rng, state, alive)
        now = _later(rng, state, now)
        if isinstance(event, e.GangGone | e.NotLaunched):
            alive.discard(event.generation)
        after, commands = step(state, event, now)
        _check(state, after, commands, alive, now)
        alive |= {c.generation for c in commands if isinstance(c, Launch)}
        yield state.status.phase, after.status.phase
        state = after


def _random_job(rng: random.Random) -> Job:
    restart = RestartPolicy(
        scope=rng.choice(list(RestartScope)),
        member_limit=rng.choice([None, 0, 2]),
        user_limit=rng.choice([0, 1, 9]),
        infrastructure_limit=rng.choice([0, 2, 9]),
        verdict=rng.choice(list(VerdictUse)),
    )
    return Job(
        "j",
        (
            Role(
                replicas=rng.choice([1, 2, 3]),
                min_replicas=rng.choice([None, 1]),
                max_replicas=rng.choice([None, 4]),
                restart=rng.choice(list(MemberRestart)),
                optional=rng.random() < 0.2,
            ),
            *((Role("later", replicas=2, step=1),) if rng.random() < 0.3 else ()),
        ),
        success=SuccessPolicy(rule=rng.choice(list(SuccessRule))),
        restart=restart,
        walltime=rng.choice([None, 5_000]),
        deadline=rng.choice([None, 9_000]),
        ttl=rng.choice([None, 1_000]),
        suspend=rng.random() < 0.1,
        after=(Dependency("k-1"),) if rng.random() < 0.2 else (),
    )


def _random_event(rng: random.Random, state: JobState, alive: set[int]) -> e.Event:
    generation = state.status.generation - (rng.random() < 0.1)
    member = rng.randrange(job_in_size(state.job, state.status.placement).members)
    size = rng.randint(1, 4)
    exit = rng.choice([e.Exit(code=0), e.Exit(code=1), e.Exit(signal=9), e.Exit(code=83), e.Exit(lost=True)])
    choices: list[e.Event] = [e.Timer()] * 2 + [rng.choice([e.Cancel(), e.Kill()])] * (rng.random() < 0.2)
    choices += [e.Suspend(), e.Resume(), e.NodeLost("n1"), e.Preempt("for k"), e.NodeClosed("n1")]
    choices += [e.DependencyEnded("k-1", satisfied=rng.random() < 0.5)]
    roles = present_job(state).roles
    choices += [e.Admit(Placement({role.name: ("n1",) * role.replicas for role in roles}))] * 4
    if roles[0].name == "worker":
        choices += [e.Resized(Placement({"worker": (rng.choice(["n1", "n2"]),) * size}), "because")]
    choices += [e.Saved(generation, 5)]
    choices += [e.Recovered(generation, rng.randint(1, 9), exit, 5)]
    choices += [e.Diagnosed(_random_cause(rng, generation))] * 2
    choices += [e.PreemptionRefused(generation, "a budget forbids it")]
    choices += [e.Started(generation), e.MemberExited(generation, member, exit)] * 3
    choices += [e.MembersPlaced(generation, Placement({"worker": ("n2",) * size}))]
    choices += [e.MemberStarted(generation, member), e.ContainersRestarted(generation, rng.randint(0, 3))]
    if state.status.phase is Phase.ADMITTED and state.status.target is None and state.status.generation in alive:
        choices += [e.NotLaunched(state.status.generation, "its state could not be written")]
    if state.status.phase is Phase.CREATED:
        choices += [e.Submitted()] * 30 + [e.Refused("too big")]
    choices += [e.GangGone(dead) for dead in alive] * 4
    return rng.choice(choices)


def _random_cause(rng: random.Random, generation: int) -> DiagnosedCause:
    certainty, advice = rng.choice(["certain", "possible"]), rng.choice(["retry", "avoid-node", "stop"])
    return DiagnosedCause(generation, "cause", "rule", certainty, rng.choice(["job", "node"]), advice, node="n1")


def _later(rng: random.Random, state: JobState, now: int) -> int:
    due = next_due(state)
    return max(now, due) if due is not None and rng.random() < 0.3 else now + rng.choice([0, 1, 1_000])


def _check(before: JobState, after: JobState, commands: tuple[Command, ...], alive: set[int], now: int) -> None:
    status = after.status
    launched = [c for c in commands if isinstance(c, Launch)]
    assert not launched or not alive, "two generations of a gang alive"
    assert all(c.generation == status.generation for c in commands if not isinstance(c, Forget))
    assert status.is_gone == (not alive and not launched)
    if before.status.phase in TERMINAL:
        late_verdict = replace(before.status, diagnosis=after.status.diagnosis)
        assert after == replace(before, status=late_verdict), "a terminal state was left"
    if status.phase in TERMINAL:
        assert status.finished_at is not None
        assert status.is_gone
    assert (status.placement is not None) <= (status.phase in HOLDING)
    assert before.status.step <= status.step
    assert status.phase is not Phase.SUCCEEDED or status.step == max(role.step for role in after.job.roles)
    assert (status.resize_to is not None) <= (status.target in (Target.RESIZE, Target.RESTART) and not status.is_gone)
    assert (status.saved_at is not None) <= (status.placement is not None)
    assert not status.restarting_members or status.phase in HOLDING
    restarted = [c.member for c in commands if isinstance(c, RestartMember)]
    assert all(
        status.restarting_members >> member & 1 and not before.status.restarting_members >> member & 1
        for member in restarted
    )
    assert status.run_time >= before.status.run_time
    if status.target is not None and not status.is_gone and before.status.target is None:
        assert any(isinstance(c, Stop) for c in commands), "a gang is to end and nobody stops it"
    _check_timer_progress(after, now)


def _check_timer_progress(state: JobState, now: int) -> None:
    """A timer at its due time changes something, so that a driver never loops."""
    due = next_due(state)
    if due is None or due > now:
        return
    after, commands = step(state, e.Timer(), now)
    again = next_due(after)
    assert any(isinstance(c, Forget) for c in commands) or again is None or again > now
    assert replace(after, status=state.status) == state
