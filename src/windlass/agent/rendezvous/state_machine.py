"""Rules of the rendezvous: members, start and end of each generation. Pure; `now` is an argument, in seconds.

    Gathering ──enough agents──▶ Running ──a failure, a loss, or a newcomer──▶ Stopping ──all stopped──▶ Gathering
                                    │    └──all succeeded──▶ Closed ◀──no restart is left──┘
                                    └── the same, where survivors can re-form ──▶ Running, the next generation

The leading agent applies these rules; a single agent leads itself by the same rules. Generation numbers only grow. A
generation starts after all remaining agents have reported that their ranks of the one before are gone.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, Union

from windlass.agent.rank_events import (
    FINAL,
    INFRASTRUCTURE,
    UNCOUNTED,
    RankEvent,
    RankFailed,
    RanksReady,
    RanksStopped,
)
from windlass.wire import RankExitCode, restart_delay


class Peer(NamedTuple):
    """An agent that takes part, as the others know it."""

    id: str
    node: str
    address: str
    port: int
    ranks: int
    place: int = -1
    """Position by --node-rank; -1: in the order of arrival."""
    generation: int = 0
    """Newest generation that this agent has seen."""


class RendezvousRules(NamedTuple):
    """Numbers of agents, limits of failures, and timeouts in seconds."""

    min_agents: int = 1
    max_agents: int = 1
    max_restarts: int = 0
    """Failures of the program from which the run recovers."""
    max_infrastructure: int = 0
    """Failures of infrastructure from which it recovers besides."""
    last_call: float = 3.0
    """Wait after the last arrival, while there are enough agents and more could come."""
    join_timeout: float = 600.0
    settle: float = 3.0
    """Wait for agents that are known and have not come yet: the followers of a lost leader."""
    gather: float = 0.5
    """Wait from a newcomer to the restart that takes it in: others may come right after it."""
    immediate: int = 2
    """Failures in a row after which the restart is not delayed; 1 with the backoff of a restart budget."""
    backoff_base: float = 2.0
    """Delay of the first delayed restart, doubled with each that follows."""
    backoff_max: float = 30.0
    healthy_after: float = 10.0
    """Life of a generation after which its failure is the first in a row."""


class RendezvousPhase(Enum):
    """Phases of a rendezvous."""

    GATHERING = "gathering"
    RUNNING = "running"
    STOPPING = "stopping"
    CLOSED = "closed"


class EndRun(NamedTuple):
    """Action: the run is over for all agents, with this exit code."""

    code: int
    reason: str


class RendezvousState(NamedTuple):
    """State of the rendezvous. Sets contain ids of agents, times are seconds of the clock of `now`."""

    rules: RendezvousRules
    since: float
    """Begin of this phase."""
    phase: RendezvousPhase = RendezvousPhase.GATHERING
    present: tuple[Peer, ...] = ()
    """Connected agents, in the order of ranks."""
    expected: frozenset[str] = frozenset()
    """Known agents that may come: those of the generation before, also under a lost leader."""
    generation: int = 0
    """The last generation that was started."""
    seen: int = 0
    """Newest generation that any agent here has seen, under any leader."""
    members: frozenset[str] = frozenset()
    """Agents of the running generation."""
    succeeded: frozenset[str] = frozenset()
    """Members all of whose ranks have exited with code 0."""
    reformable: frozenset[str] = frozenset()
    """Agents all of whose ranks can take a new membership while they run."""
    unstopped: frozenset[str] = frozenset()
    """Members whose ranks are being stopped."""
    restarts: int = 0
    """Failures of the program so far."""
    infrastructure: int = 0
    """Failures of infrastructure so far."""
    failures_in_a_row: int = 0
    """Failures without a healthy generation in between."""
    not_before: float = 0.0
    """Earliest time of the next generation, after the backoff."""
    arrived: float = 0.0
    """Time of the last arrival."""
    ending: EndRun | None = None
    """The end of the run, once it is decided."""


class AgentJoined(NamedTuple):
    """An agent has come, or come back; its ranks are stopped."""

    peer: Peer


class AgentLost(NamedTuple):
    """An agent is gone; the end of its ranks is unknown."""

    agent_id: str


class TimePassed(NamedTuple):
    """The time that `deadline` returned has come."""


Event = Union[AgentJoined, AgentLost, RankEvent, TimePassed]


class StartGeneration(NamedTuple):
    """Action: start a generation of these members, in this order."""

    generation: int
    members: tuple[Peer, ...]
    restarts: int
    keep: bool = False
    """Running ranks go on with it; only missing ones are started."""
    reason: str = ""


class StopRanks(NamedTuple):
    """Action: stop the ranks of this generation on all nodes."""

    generation: int
    reason: str
    planned: bool = False
    """No rank has failed: ranks have the time to save."""


Action = Union[StartGeneration, StopRanks, EndRun]
Decision = tuple[RendezvousState, tuple[Action, ...]]


def step(state: RendezvousState, event: Event, now: float) -> Decision:
    """Returns the state after the event, and the actions to take."""
    if state.phase is RendezvousPhase.CLOSED:
        return state, ()
    if isinstance(event, AgentJoined):
        return _join(state, event.peer, now)
    if isinstance(event, AgentLost):
        return _lose(state, event.agent_id, now)
    if isinstance(event, TimePassed) or event.generation != state.generation:
        return _review(state, now)
    return _take_rank_event(state, event, now)


def _take_rank_event(state: RendezvousState, event: RankEvent, now: float) -> Decision:
    if isinstance(event, RankFailed):
        return _fail(state, event, now)
    if isinstance(event, RanksStopped):
        return _take_stop(state, event, now)
    if isinstance(event, RanksReady):
        return state._replace(reformable=state.reformable | {event.agent_id}), ()
    state = state._replace(succeeded=state.succeeded | {event.agent_id})
    if state.phase is RendezvousPhase.RUNNING and state.members <= state.succeeded:
        return _close(state, EndRun(0, "all ranks have succeeded"), now)
    return state, ()


def deadline(state: RendezvousState) -> float | None:
    """Time of the next step with TimePassed if no event comes before."""
    if state.phase is RendezvousPhase.GATHERING:
        return (
            _forms_at(state) if len(state.present) >= state.rules.min_agents else state.since + state.rules.join_timeout
        )
    if state.phase is RendezvousPhase.RUNNING and _wants_newcomers(state):
        return state.arrived + state.rules.gather
    return None


def sort_by_place(present: tuple[Peer, ...]) -> tuple[Peer, ...]:
    """Sorted by place where places are given, else in the order of arrival."""
    return tuple(sorted(present, key=lambda peer: peer.place))


def _join(state: RendezvousState, peer: Peer, now: float) -> Decision:
    before: tuple[Action, ...] = ()
    if peer.id in state.members:  # it lost the leader and stopped its ranks; its old connection may look alive
        state, before = _lose(state, peer.id, now)
    others = tuple(each for each in state.present if each.id != peer.id)
    seen = max(state.seen, peer.generation)
    state, after = _review(state._replace(present=sort_by_place((*others, peer)), arrived=now, seen=seen), now)
    return state, (*before, *after)


def _lose(state: RendezvousState, agent: str, now: float) -> Decision:
    node = next((peer.node for peer in state.present if peer.id == agent), agent)
    left = state._replace(
        present=tuple(peer for peer in state.present if peer.id != agent),
        expected=state.expected - {agent},
        unstopped=state.unstopped - {agent},
    )
    if left.phase is RendezvousPhase.RUNNING and agent in left.members - left.succeeded:
        if _can_reform(left, left.members - {agent}):
            return _start(left, now, keep=True, reason=f"node {node} is lost")
        return _stop(left, f"node {node} is lost", now)
    if left.phase is RendezvousPhase.STOPPING and not left.unstopped:
        return _gather(left, now)
    return _review(left, now)


def _fail(state: RendezvousState, event: RankFailed, now: float) -> Decision:
    if event.charged_to == FINAL:
        state = state._replace(ending=EndRun(event.code, event.reason))
    if state.phase is not RendezvousPhase.RUNNING:
        return state, ()
    if event.charged_to == UNCOUNTED:
        return _stop(state, event.reason, now)
    state = _count(state, event)
    if state.ending is None and not event.hangs and _can_reform(state, state.members):
        return _start(state, now, keep=True, reason=event.reason)
    return _stop(state, event.reason, now)


def _count(state: RendezvousState, event: RankFailed) -> RendezvousState:
    """Counts a failure against its limit; sets `ending` where the limit is exceeded."""
    by_infrastructure, rules = event.charged_to == INFRASTRUCTURE, state.rules
    count = state.infrastructure if by_infrastructure else state.restarts
    limit = rules.max_infrastructure if by_infrastructure else rules.max_restarts
    if state.ending is None and count >= limit:
        return state._replace(ending=EndRun(event.code, event.reason))
    if by_infrastructure:
        return state._replace(infrastructure=count + 1)
    return state._replace(restarts=count + 1)


def _can_reform(state: RendezvousState, members: frozenset[str]) -> bool:
    return members <= state.reformable and not state.succeeded and len(state.present) >= state.rules.min_agents


def _stop(state: RendezvousState, reason: str, now: float, *, planned: bool = False) -> Decision:
    here = frozenset(peer.id for peer in state.present) & state.members
    rules = state.rules
    was_healthy = now - state.since >= rules.healthy_after
    failures_in_a_row = 0 if planned else 1 if was_healthy else state.failures_in_a_row + 1
    delay = restart_delay(failures_in_a_row - rules.immediate + 1, rules.backoff_base, rules.backoff_max)
    stopping = state._replace(
        phase=RendezvousPhase.STOPPING,
        since=now,
        unstopped=here,
        failures_in_a_row=failures_in_a_row,
        not_before=now + delay,
    )
    if not here:
        return _gather(stopping, now)
    return stopping, (StopRanks(state.generation, reason, planned),)


def _take_stop(state: RendezvousState, event: RanksStopped, now: float) -> Decision:
    if event.code == RankExitCode.FATAL and state.ending is None:
        reason = "a rank exited with the code that forbids a restart"
        state = state._replace(ending=EndRun(event.code, reason))
    state = state._replace(unstopped=state.unstopped - {event.agent_id})
    if state.phase is RendezvousPhase.STOPPING and not state.unstopped:
        return _gather(state, now)
    return state, ()


def _gather(state: RendezvousState, now: float) -> Decision:
    """All ranks are stopped: end the run, or gather for the next generation."""
    if state.ending is not None:
        return _close(state, state.ending, now)
    here = frozenset(peer.id for peer in state.present)
    again = state._replace(
        phase=RendezvousPhase.GATHERING, since=now, expected=here, members=frozenset(), succeeded=frozenset()
    )
    return _review(again, now)


def _close(state: RendezvousState, ending: EndRun, now: float) -> Decision:
    return state._replace(phase=RendezvousPhase.CLOSED, since=now, ending=ending), (ending,)


def _review(state: RendezvousState, now: float) -> Decision:
    """Starts a generation if enough agents are present; stops one if newcomers are to be taken in."""
    if state.phase is RendezvousPhase.RUNNING and _wants_newcomers(state) and now >= state.arrived + state.rules.gather:
        return _stop(state, "more nodes have come", now, planned=True)
    if state.phase is not RendezvousPhase.GATHERING:
        return state, ()
    if len(state.present) < state.rules.min_agents:
        return _wait_for_more(state, now)
    if now < _forms_at(state):
        return state, ()
    return _start(state, now)


def _wants_newcomers(state: RendezvousState) -> bool:
    here = frozenset(peer.id for peer in state.present)
    return not state.succeeded and len(state.members) < state.rules.max_agents and bool(here - state.members)


def _forms_at(state: RendezvousState) -> float:
    """Time at which the present agents form a generation, if they are enough."""
    here = frozenset(peer.id for peer in state.present)
    if len(here) >= state.rules.max_agents or (state.expected and state.expected <= here):
        return state.not_before
    wait = state.rules.settle if state.expected else state.rules.last_call
    return max(state.not_before, (state.since if state.expected else state.arrived) + wait)


def _wait_for_more(state: RendezvousState, now: float) -> Decision:
    if now < state.since + state.rules.join_timeout:
        return state, ()
    reason = (
        f"{len(state.present)} of at least {state.rules.min_agents} nodes have come in {state.rules.join_timeout:.0f} s"
    )
    return _close(state, EndRun(1, reason), now)


def _start(state: RendezvousState, now: float, *, keep: bool = False, reason: str = "") -> Decision:
    chosen = state.present[: state.rules.max_agents]
    generation = max(state.generation, state.seen) + 1
    running = state._replace(
        phase=RendezvousPhase.RUNNING,
        since=now,
        generation=generation,
        members=frozenset(peer.id for peer in chosen),
        succeeded=frozenset(),
        reformable=frozenset(),
        expected=frozenset(),
    )
    return running, (StartGeneration(generation, chosen, state.restarts, keep, reason),)
