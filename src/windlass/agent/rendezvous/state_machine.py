"""Who makes up the next generation, and when: decided by the leading agent. Pure; `now` is an argument.

    Gathering ──enough are here──▶ Running ──one ended badly, is lost, or came──▶ Stopping ──all stopped──▶ Gathering
                                    │    └──all done──▶ Closed ◀──nothing is left to try──┘
                                    └── the same, where survivors can re-form ──▶ Running, the next generation

An agent alone leads a crew of one by the same rules. Generations only grow; no generation starts before all agents
that are left have said that their ranks of the one before are gone.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, Union

from windlass.agent.rank_events import RankEvent, RankFailed, RanksReady, RanksStopped
from windlass.wire import ExitCode

_DOUBLINGS = 30


class Peer(NamedTuple):
    """An agent that is here, and what it is to others."""

    id: str
    node: str
    address: str
    port: int
    ranks: int
    place: int = -1
    """Where it stands by --node-rank; -1: in the order of arrival."""
    generation: int = 0
    """The newest generation that it has seen."""


class Rules(NamedTuple):
    """How many agents make a crew, how often it may fail, and seconds of patience."""

    least: int = 1
    most: int = 1
    max_restarts: int = 0
    machine: int = 0
    """So often an end that is a machine's fault may be put right besides."""
    last_call: float = 3.0
    """After the last arrival, while more than enough could still come."""
    join_timeout: float = 600.0
    settle: float = 3.0
    """For agents that are known to be there and not yet here: those of a leader that is lost."""
    gather: float = 0.5
    """From a newcomer to the restart for its sake: others may be right behind it."""
    backoff: float | None = None
    """Before the second restart in a row, doubled with each that follows. None: 2 before the third one."""
    backoff_most: float = 30.0
    healthy: float = 10.0
    """A generation that lived so long ends the row."""


class Phase(Enum):
    """Where a crew stands."""

    GATHERING = "gathering"
    RUNNING = "running"
    STOPPING = "stopping"
    CLOSED = "closed"


class EndRun(NamedTuple):
    """The run is over for everybody, with this exit code."""

    code: int
    why: str


class Rendezvous(NamedTuple):
    """Everything that is decided upon. `present` is in the order of ranks."""

    rules: Rules
    since: float
    """When this phase began."""
    phase: Phase = Phase.GATHERING
    present: tuple[Peer, ...] = ()
    expected: frozenset[str] = frozenset()
    generation: int = 0
    seen: int = 0
    """The newest generation that anybody here has seen, under whichever leader."""
    members: frozenset[str] = frozenset()
    done: frozenset[str] = frozenset()
    able: frozenset[str] = frozenset()
    """Agents all of whose ranks can take a new membership while they run."""
    unstopped: frozenset[str] = frozenset()
    restarts: int = 0
    machine: int = 0
    """How many of the forgiven failures of machines there were."""
    quick: int = 0
    not_before: float = 0.0
    arrived: float = 0.0
    """When the last one came."""
    verdict: EndRun | None = None


class AgentJoined(NamedTuple):
    """An agent has come, or come back; its ranks are stopped."""

    peer: Peer


class AgentLost(NamedTuple):
    """An agent is gone, and nobody knows what its ranks did."""

    id: str


class TimePassed(NamedTuple):
    """Time has passed."""


Event = Union[AgentJoined, AgentLost, RankEvent, TimePassed]


class StartGeneration(NamedTuple):
    """Start a generation of these members, in this order."""

    generation: int
    members: tuple[Peer, ...]
    restarts: int
    keep: bool = False
    """Ranks that run go on with it; only those that are missing are started."""
    why: str = ""


class StopRanks(NamedTuple):
    """Stop the ranks of this generation, everywhere."""

    generation: int
    why: str
    planned: bool = False
    """Nothing is broken: ranks have the time to save."""


Action = Union[StartGeneration, StopRanks, EndRun]
Decision = tuple[Rendezvous, tuple[Action, ...]]


def step(crew: Rendezvous, event: Event, now: float) -> Decision:
    """What is true after the event, and what is to be done."""
    if crew.phase is Phase.CLOSED:
        return crew, ()
    if isinstance(event, AgentJoined):
        return _joined(crew, event.peer, now)
    if isinstance(event, AgentLost):
        return _lost(crew, event.id, now)
    if isinstance(event, TimePassed) or event.generation != crew.generation:
        return _look_around(crew, now)
    return _told_of_ranks(crew, event, now)


def _told_of_ranks(crew: Rendezvous, event: RankEvent, now: float) -> Decision:
    if isinstance(event, RankFailed):
        return _failed(crew, event, now)
    if isinstance(event, RanksStopped):
        return _stopped(crew, event, now)
    if isinstance(event, RanksReady):
        return crew._replace(able=crew.able | {event.id}), ()
    crew = crew._replace(done=crew.done | {event.id})
    if crew.phase is Phase.RUNNING and crew.members <= crew.done:
        return _close(crew, EndRun(0, "all ranks have ended well"), now)
    return crew, ()


def deadline(crew: Rendezvous) -> float | None:
    """When to step with Passed if nothing else happens."""
    if crew.phase is Phase.GATHERING:
        return _forms_at(crew) if len(crew.present) >= crew.rules.least else crew.since + crew.rules.join_timeout
    if crew.phase is Phase.RUNNING and _wants_newcomers(crew):
        return crew.arrived + crew.rules.gather
    return None


def sort_by_position(present: tuple[Peer, ...]) -> tuple[Peer, ...]:
    """By place where places are given, else as they came."""
    return tuple(sorted(present, key=lambda peer: peer.place))


def _joined(crew: Rendezvous, peer: Peer, now: float) -> Decision:
    before: tuple[Action, ...] = ()
    if peer.id in crew.members:  # it lost us and has stopped its ranks, and its old line is not known to be dead yet
        crew, before = _lost(crew, peer.id, now)
    others = tuple(each for each in crew.present if each.id != peer.id)
    seen = max(crew.seen, peer.generation)
    crew, after = _look_around(crew._replace(present=sort_by_position((*others, peer)), arrived=now, seen=seen), now)
    return crew, (*before, *after)


def _lost(crew: Rendezvous, who: str, now: float) -> Decision:
    node = next((peer.node for peer in crew.present if peer.id == who), who)
    left = crew._replace(
        present=tuple(peer for peer in crew.present if peer.id != who),
        expected=crew.expected - {who},
        unstopped=crew.unstopped - {who},
    )
    if left.phase is Phase.RUNNING and who in left.members - left.done:
        if _can_reform(left, left.members - {who}):
            return _publish(left, now, keep=True, why=f"node {node} is lost")
        return _halt(left, f"node {node} is lost", now)
    if left.phase is Phase.STOPPING and not left.unstopped:
        return _all_stopped(left, now)
    return _look_around(left, now)


def _failed(crew: Rendezvous, event: RankFailed, now: float) -> Decision:
    if event.code == ExitCode.FATAL or event.whose == "final":
        crew = crew._replace(verdict=EndRun(event.code, event.why))
    if crew.phase is not Phase.RUNNING:
        return crew, ()
    if event.code in (ExitCode.PREEMPTED, ExitCode.RETRY):
        return _halt(crew, event.why, now)
    crew = _counted(crew, event)
    if crew.verdict is not None:
        return _halt(crew, event.why, now)
    if not event.hangs and _can_reform(crew, crew.members):
        return _publish(crew, now, keep=True, why=event.why)
    return _halt(crew, event.why, now)


def _counted(crew: Rendezvous, event: RankFailed) -> Rendezvous:
    """One failure more, of its kind; the end, if that was one too many."""
    by_machine = event.whose == "machine"
    had, most = (crew.machine, crew.rules.machine) if by_machine else (crew.restarts, crew.rules.max_restarts)
    if crew.verdict is None and had >= most:
        return crew._replace(verdict=EndRun(event.code, event.why))
    return crew._replace(machine=had + 1) if by_machine else crew._replace(restarts=had + 1)


def _can_reform(crew: Rendezvous, members: frozenset[str]) -> bool:
    return members <= crew.able and not crew.done and len(crew.present) >= crew.rules.least


def _halt(crew: Rendezvous, why: str, now: float, *, planned: bool = False) -> Decision:
    here = frozenset(peer.id for peer in crew.present) & crew.members
    quick = 0 if planned else _in_a_row(crew, now)
    wait = _wait(crew.rules, quick)
    stopping = crew._replace(phase=Phase.STOPPING, since=now, unstopped=here, quick=quick, not_before=now + wait)
    if not here:
        return _all_stopped(stopping, now)
    return stopping, (StopRanks(crew.generation, why, planned),)


def _in_a_row(crew: Rendezvous, now: float) -> int:
    """The how many-th end this is. With a job's backoff it counts as the core does: a long life's end is the first."""
    if now - crew.since < crew.rules.healthy:
        return crew.quick + 1
    return 0 if crew.rules.backoff is None else 1


def _wait(rules: Rules, quick: int) -> float:
    base, free = (1.0, 2) if rules.backoff is None else (rules.backoff, 1)
    return min(rules.backoff_most, base * 2.0 ** min(quick - 2, _DOUBLINGS)) if quick > free else 0.0


def _stopped(crew: Rendezvous, event: RanksStopped, now: float) -> Decision:
    if event.code == ExitCode.FATAL and crew.verdict is None:
        crew = crew._replace(
            verdict=EndRun(event.code, "a rank said that starting it again would fail in the same way")
        )
    crew = crew._replace(unstopped=crew.unstopped - {event.id})
    if crew.phase is Phase.STOPPING and not crew.unstopped:
        return _all_stopped(crew, now)
    return crew, ()


def _all_stopped(crew: Rendezvous, now: float) -> Decision:
    if crew.verdict is not None:
        return _close(crew, crew.verdict, now)
    here = frozenset(peer.id for peer in crew.present)
    again = crew._replace(phase=Phase.GATHERING, since=now, expected=here, members=frozenset(), done=frozenset())
    return _look_around(again, now)


def _close(crew: Rendezvous, verdict: EndRun, now: float) -> Decision:
    return crew._replace(phase=Phase.CLOSED, since=now, verdict=verdict), (verdict,)


def _look_around(crew: Rendezvous, now: float) -> Decision:
    """Whether those who are here are enough, and whether newcomers are worth a restart."""
    if crew.phase is Phase.RUNNING and _wants_newcomers(crew) and now >= crew.arrived + crew.rules.gather:
        return _halt(crew, "more nodes have come", now, planned=True)
    if crew.phase is not Phase.GATHERING:
        return crew, ()
    if len(crew.present) < crew.rules.least:
        return _wait_for_more(crew, now)
    if now < _forms_at(crew):
        return crew, ()
    return _publish(crew, now)


def _wants_newcomers(crew: Rendezvous) -> bool:
    here = frozenset(peer.id for peer in crew.present)
    return not crew.done and len(crew.members) < crew.rules.most and bool(here - crew.members)


def _forms_at(crew: Rendezvous) -> float:
    """When the crew that is here is taken, if it is large enough."""
    here = frozenset(peer.id for peer in crew.present)
    if len(here) >= crew.rules.most or (crew.expected and crew.expected <= here):
        return crew.not_before
    patience = crew.rules.settle if crew.expected else crew.rules.last_call
    return max(crew.not_before, (crew.since if crew.expected else crew.arrived) + patience)


def _wait_for_more(crew: Rendezvous, now: float) -> Decision:
    if now < crew.since + crew.rules.join_timeout:
        return crew, ()
    why = f"{len(crew.present)} of at least {crew.rules.least} nodes have come in {crew.rules.join_timeout:.0f} s"
    return _close(crew, EndRun(1, why), now)


def _publish(crew: Rendezvous, now: float, *, keep: bool = False, why: str = "") -> Decision:
    chosen = crew.present[: crew.rules.most]
    generation = max(crew.generation, crew.seen) + 1
    running = crew._replace(
        phase=Phase.RUNNING,
        since=now,
        generation=generation,
        members=frozenset(peer.id for peer in chosen),
        done=frozenset(),
        able=frozenset(),
        expected=frozenset(),
    )
    return running, (StartGeneration(generation, chosen, crew.restarts, keep, why),)
