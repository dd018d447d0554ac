"""The state machine of a job: one table of transitions, and `step`, which applies an event.

Rules: a handler keeps the phase or changes it to one that its row declares; a terminal phase never changes; every
(phase, event) pair has a row or is a declared no-op. `core.lifecycle.diagram` draws the documentation's
picture from this same table. The handlers are in `transitions` (observed events), `requests` (users' requests) and
`timers`; `generations` has their common part.

Sources: the conditions of kubeflow's training operator v1 (Created, Running, Restarting, Succeeded,
Failed, Suspended) with coordinated restart: one lost member ends the generation, the whole gang starts again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from windlass.core.lifecycle import diagnosis, member_restarts, requests, scaling, timers
from windlass.core.lifecycle import transitions as t
from windlass.core.lifecycle.commands import Command
from windlass.core.lifecycle.events import (
    Admit,
    Cancel,
    ContainersRestarted,
    DependencyEnded,
    Diagnosed,
    Event,
    GangGone,
    Kill,
    MemberExited,
    MembersPlaced,
    MemberStarted,
    NodeClosed,
    NodeLost,
    NotLaunched,
    Preempt,
    PreemptionRefused,
    Recovered,
    Refused,
    Resized,
    Resume,
    Saved,
    SpecChanged,
    Started,
    Submitted,
    Suspend,
    Timer,
)
from windlass.core.lifecycle.generations import Outcome
from windlass.core.model.status import HOLDING, TERMINAL, JobState, Phase

Handler: TypeAlias = Callable[[JobState, Event, int], Outcome]

CREATED, QUEUED, ADMITTED, RUNNING = Phase.CREATED, Phase.QUEUED, Phase.ADMITTED, Phase.RUNNING
RESTARTING, SUSPENDED = Phase.RESTARTING, Phase.SUSPENDED
SUCCEEDED, FAILED = Phase.SUCCEEDED, Phase.FAILED
STARTED = (ADMITTED, RUNNING)


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the transition table.

    From any of `sources`, on an event of type `on`, `handler` leads to one of `targets` or stays where it is.
    """

    sources: tuple[Phase, ...]
    on: type[Event]
    targets: tuple[Phase, ...]
    handler: Handler


def _row(sources: tuple[Phase, ...], on: type[Event], targets: tuple[Phase, ...], handler: object) -> Row:
    return Row(sources, on, targets, handler)  # type: ignore[arg-type]  # a handler takes its own event type only


TABLE: tuple[Row, ...] = (
    _row((CREATED,), Submitted, (QUEUED, SUSPENDED), t.on_submitted),
    _row((CREATED,), Refused, (FAILED,), t.on_refused),
    _row((QUEUED, SUSPENDED), DependencyEnded, (FAILED,), t.on_dependency_ended),
    _row((QUEUED,), Admit, (ADMITTED,), t.admit),
    _row((ADMITTED,), NotLaunched, (QUEUED,), t.on_not_launched),
    _row(STARTED, MembersPlaced, (), t.on_members_placed),
    _row((ADMITTED,), Started, (RUNNING,), t.on_started),
    _row(STARTED, MemberExited, (RESTARTING,), t.on_member_exited),
    _row(STARTED, MemberStarted, (), member_restarts.on_member_started),
    _row(STARTED, ContainersRestarted, (), member_restarts.on_containers_restarted),
    _row((ADMITTED, RUNNING), GangGone, (SUCCEEDED, FAILED, SUSPENDED, RESTARTING), t.on_gang_gone),
    _row((RESTARTING,), GangGone, (ADMITTED, QUEUED, SUSPENDED, FAILED), t.on_gang_gone),
    _row(STARTED, NodeLost, (RESTARTING,), t.on_node_lost),
    _row((RESTARTING,), NodeLost, (QUEUED,), t.on_node_lost),
    _row((RESTARTING,), NodeClosed, (QUEUED,), t.on_node_closed),
    _row(STARTED, Preempt, (RESTARTING,), t.preempt),
    _row((RESTARTING,), Preempt, (QUEUED,), t.preempt),
    _row((RESTARTING,), PreemptionRefused, (ADMITTED, RUNNING), t.on_preemption_refused),
    _row(STARTED, Resized, (RESTARTING,), t.on_resized),
    _row((*STARTED, RESTARTING), SpecChanged, (), scaling.on_spec_changed),
    _row((RESTARTING,), Resized, (), t.on_resized),
    _row((*STARTED, RESTARTING), Saved, (), t.on_saved),
    _row((*STARTED, RESTARTING), Recovered, (), t.on_recovered),
    _row((QUEUED, RESTARTING), Diagnosed, (QUEUED, FAILED), diagnosis.on_diagnosed),
    _row((*STARTED, SUSPENDED, SUCCEEDED, FAILED), Diagnosed, (), diagnosis.on_diagnosed),
    _row((CREATED, QUEUED), Suspend, (SUSPENDED,), requests.suspend),
    _row(STARTED, Suspend, (), requests.suspend),
    _row((RESTARTING,), Suspend, (SUSPENDED,), requests.suspend),
    _row((ADMITTED, RUNNING, RESTARTING), Resume, (RESTARTING,), requests.resume_while_stopping),
    _row((SUSPENDED,), Resume, (QUEUED,), requests.resume),
    _row((CREATED, QUEUED, SUSPENDED), Cancel, (FAILED,), requests.cancel),
    _row(STARTED, Cancel, (), requests.cancel),
    _row((RESTARTING,), Cancel, (FAILED,), requests.cancel),
    _row((CREATED, QUEUED, SUSPENDED), Kill, (FAILED,), requests.kill),
    _row(STARTED, Kill, (), requests.kill),
    _row((RESTARTING,), Kill, (FAILED,), requests.kill),
    _row((QUEUED,), Timer, (FAILED,), timers.on_timer),
    _row((ADMITTED,), Timer, (RESTARTING,), timers.on_timer),
    _row((RUNNING,), Timer, (), timers.on_timer),
    _row((RESTARTING,), Timer, (ADMITTED, FAILED), timers.on_timer),
    _row((SUCCEEDED, FAILED), Timer, (), timers.forget),
)

NO_OPS: frozenset[tuple[Phase, type[Event]]] = frozenset(
    {(phase, Admit) for phase in Phase if phase is not QUEUED}  # a late plan
    | {(phase, Submitted) for phase in Phase if phase is not CREATED}  # a repetition
    | {(phase, Refused) for phase in Phase if phase is not CREATED}
    | {(phase, NotLaunched) for phase in Phase if phase is not ADMITTED}
    | {(phase, MembersPlaced) for phase in Phase if phase not in STARTED}  # the gang is being stopped already
    | {(phase, Started) for phase in Phase if phase is not ADMITTED}  # of an older generation
    | {(phase, MemberExited) for phase in Phase if phase not in STARTED}  # the gang is being stopped already
    | {(phase, event) for phase in Phase if phase not in STARTED for event in (MemberStarted, ContainersRestarted)}
    | {(phase, GangGone) for phase in Phase if phase not in HOLDING}
    | {(phase, NodeLost) for phase in Phase if phase not in HOLDING}
    | {(phase, NodeClosed) for phase in Phase if phase is not RESTARTING}  # running members go on
    | {(phase, Preempt) for phase in Phase if phase not in HOLDING}
    | {(phase, PreemptionRefused) for phase in Phase if phase is not RESTARTING}  # it has gone after all
    | {(phase, Resized) for phase in Phase if phase not in HOLDING}
    | {(phase, SpecChanged) for phase in Phase if phase not in HOLDING}
    | {(phase, Saved) for phase in Phase if phase not in HOLDING}  # a late report
    | {(phase, Recovered) for phase in Phase if phase not in HOLDING}
    | {(phase, DependencyEnded) for phase in Phase if phase not in (QUEUED, SUSPENDED)}
    | {(CREATED, Diagnosed)}
    | {(phase, Timer) for phase in (CREATED, SUSPENDED)}
    | {(phase, Resume) for phase in (CREATED, QUEUED, SUCCEEDED, FAILED)}  # nothing to resume
    | {(phase, Suspend) for phase in (SUSPENDED, SUCCEEDED, FAILED)}
    | {(phase, Cancel) for phase in TERMINAL}
    | {(phase, Kill) for phase in TERMINAL}
)

_OF_ONE_GENERATION = (
    NotLaunched,
    MembersPlaced,
    Started,
    MemberExited,
    MemberStarted,
    ContainersRestarted,
    GangGone,
    Saved,
    Recovered,
)
_ROWS: dict[tuple[Phase, type[Event]], Row] = {(source, row.on): row for row in TABLE for source in row.sources}


class InvalidTransitionError(Exception):
    """A handler broke its row's declaration, or a pair has no row: a bug. The message has state and event."""


def step(state: JobState, event: Event, now: int) -> tuple[JobState, tuple[Command, ...]]:
    """The state after `event`, and the commands that it causes.

    Events of an older generation change nothing. Raises InvalidTransitionError.
    """
    key = (state.status.phase, type(event))
    if key in NO_OPS or _is_stale(state, event):
        return state, ()
    row = _ROWS.get(key)
    if row is None:
        raise InvalidTransitionError(f"{state.id}: no row for {event} in {state.status}")
    after, commands = row.handler(state, event, now)
    if after.status.phase not in (state.status.phase, *row.targets):
        raise InvalidTransitionError(f"{state.id}: {event} led from {state.status} to {after.status}")
    return after, commands


def _is_stale(state: JobState, event: Event) -> bool:
    """Whether an event is of an earlier generation, or of a member that was removed while it was under way."""
    status = state.status
    if not isinstance(event, _OF_ONE_GENERATION):
        return False
    if event.generation != status.generation:
        return True
    if status.placement is None or not isinstance(event, MemberExited | MemberStarted):
        return False
    return event.member >= sum(len(names) for names in status.placement.nodes.values())


def next_due(state: JobState) -> int | None:
    """Time in ms at which the job needs a Timer event; None: never."""
    if state.status.phase in TERMINAL:
        return timers.expiry_of(state)
    due = timers.due_times(state)
    times = (due.deadline, due.walltime, due.start, due.backoff, due.avoidance, due.expiry)
    return min((at for at in times if at is not None), default=None)
