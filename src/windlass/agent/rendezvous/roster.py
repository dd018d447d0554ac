"""The list of the agents of a run, which the leading agent sends to its followers (`leader_server`, `follower`)."""

from __future__ import annotations

from dataclasses import dataclass

from windlass.agent.rendezvous.state_machine import Peer


@dataclass
class Roster:
    """This agent, all agents in the order of succession, and the number of restarts that are used up."""

    me: Peer
    peers: tuple[Peer, ...] = ()
    """The leader first; empty before this agent has followed or led."""
    restarts: int = 0
