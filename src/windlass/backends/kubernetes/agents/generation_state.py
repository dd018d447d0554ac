"""Changes of a rendezvous' state that the operator makes beside the agents' own rules. Pure.

The rules are `windlass.agent.rendezvous.state_machine`; an agent that leads never takes over a running generation and
never begins again after the end, the operator does both. Part of `rendezvous`.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from windlass import wire
from windlass.agent.rank_events import RankFailed
from windlass.agent.rendezvous.state_machine import (
    Peer,
    RendezvousPhase,
    RendezvousRules,
    RendezvousState,
    sort_by_place,
)
from windlass.core.model.job import RestartPolicy

_UNLIMITED = 1 << 60


def rules_for(members: int, restart: RestartPolicy) -> RendezvousRules:
    """Returns the rules for a gang of this size: all members, and no limit of restarts, which the core keeps."""
    return RendezvousRules(
        members,
        members,
        max_restarts=_UNLIMITED,
        join_timeout=math.inf,
        immediate=1,
        backoff_base=restart.backoff_base / 1000,
        backoff_max=restart.backoff_max / 1000,
        healthy_after=restart.healthy_after / 1000,
    )


def take_over(state: RendezvousState, generation: int, members: Collection[str], now: float) -> RendezvousState:
    """Returns the state in which a generation runs that an earlier leader started."""
    running = RendezvousPhase.RUNNING
    return state._replace(phase=running, since=now, generation=generation, seen=generation, members=frozenset(members))


def begin_again(state: RendezvousState, now: float) -> RendezvousState:
    """Returns the state after a run that was over: kubelets may restart containers that failed."""
    if state.phase is not RendezvousPhase.CLOSED:
        return state
    return RendezvousState(state.rules, now, arrived=now, seen=state.generation)


def with_peer(state: RendezvousState, peer: Peer) -> RendezvousState:
    """Returns the state with an agent that is present, in the place of its earlier entry if there is one."""
    others = tuple(each for each in state.present if each.id != peer.id)
    return state._replace(present=sort_by_place((*others, peer)))


def with_known_peer(state: RendezvousState, peer: Peer) -> RendezvousState:
    """Returns the state with new facts about an agent; the same state if the agent is not present."""
    return state._replace(present=tuple(peer if each.id == peer.id else each for each in state.present))


def is_present(state: RendezvousState, agent: str) -> bool:
    """Tells whether an agent takes part."""
    return any(peer.id == agent for peer in state.present)


def ends_generation(state: RendezvousState, failed: RankFailed) -> bool:
    """Tells whether a failure is the first one of the running generation."""
    is_running = state.phase is RendezvousPhase.RUNNING and failed.generation == state.generation
    return is_running and state.ending is None


def membership(state: RendezvousState, members: tuple[Peer, ...]) -> wire.Membership:
    """Returns the membership of a generation that starts, for all its agents."""
    nodes = tuple(wire.MemberNode(peer.node, peer.address, peer.ranks) for peer in members)
    first = members[0]
    return wire.Membership(state.generation, nodes, first.port, address=first.address, restarts=state.restarts)


def pod_of_rank(state: RendezvousState, rank: int) -> str:
    """Returns the pod of a rank; "" if unknown."""
    end = 0
    for peer in state.present:
        end += peer.ranks
        if 0 <= rank < end:
            return peer.id
    return ""
