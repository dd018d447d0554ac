"""Changes between leading and following: `leader_server` and `follower` call them, and `multi_node` implements them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from windlass.agent.rendezvous.leader_search import Endpoint
from windlass.agent.rendezvous.state_machine import EndRun


class RoleChanges(Protocol):
    """The switch between the roles of an agent."""

    def lead(self, expected: frozenset[str]) -> None:
        """Leads from now on. `expected`: ids of agents that are known and may come."""

    def lead_at_endpoint(self) -> bool:
        """Leads if this agent can listen at the rendezvous endpoint. Returns whether it does."""

    def follow(self, leader: Endpoint) -> None:
        """Stops leading and follows another leader."""

    def search_when_stopped(self, reason: str, endpoints: Sequence[Endpoint]) -> None:
        """Stops leading, stops the ranks, then searches for the leader at these endpoints."""

    def close(self, ending: EndRun) -> None:
        """Ends this agent."""
