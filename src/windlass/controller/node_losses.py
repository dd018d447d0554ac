"""Events of gangs that follow from the state of their nodes: lost, unreachable for too long, closed."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable

from windlass.core.lifecycle.events import Event, MemberExited, NodeClosed, NodeLost
from windlass.core.lifecycle.failure import has_exited_by_itself
from windlass.core.model.node import Node
from windlass.core.model.queue import Queue
from windlass.core.model.snapshot import Snapshot
from windlass.core.model.status import HOLDING, JobState
from windlass.core.nodes.node_health import HeldNodes, NodeMonitor, grace_of


class UnreachableNodes:
    """The nodes that are not ready, and the gangs that lose them when their grace is over."""

    def __init__(self) -> None:
        self._monitor = NodeMonitor()
        self.due: int | None = None
        """Time at which a gang loses the next unreachable node, if the node does not report again."""

    def observe(self, nodes: Iterable[Node], now: int) -> None:
        """Takes note of the nodes as they are now."""
        self._monitor.observe(nodes, now)

    def find_lost(
        self, states: Iterable[JobState], queue_of: Callable[[str], Queue | None], now: int
    ) -> list[tuple[str, NodeLost]]:
        """An event for every gang and each of its nodes that has been unreachable for longer than its grace."""
        held = (
            HeldNodes(state.id, nodes_of(state), grace_of(state.job, queue_of(state.job.queue)))
            for state in states
            if state.status.phase in HOLDING
        )
        lost, self.due = self._monitor.find_lost(held, now)
        return [(job_id, NodeLost(node, f"node {node} was unreachable for too long")) for job_id, node in lost]

    def blame(self, state: JobState | None, event: Event, now: int) -> Event:
        """Takes a member's error for the loss of a node that became unreachable at about that time, with its peers.

        The lists of the job come first: a code that they name keeps its class, and so does an end of the job. In an
        outage no node is blamed.
        """
        if state is None or not isinstance(event, MemberExited) or event.generation != state.status.generation:
            return event
        if not has_exited_by_itself(event.exit, state.job.restart):
            return event
        at = now if event.at is None else min(event.at, now)
        node = next((name for name in nodes_of(state) if self._monitor.may_explain_failure(name, at)), None)
        if node is None:
            return event
        return NodeLost(node, f"a member failed while node {node} was unreachable: {event.exit.detail}")


def losses_of(state: JobState, lost: Container[str]) -> list[NodeLost]:
    """An event for each node of the gang that is lost."""
    return [NodeLost(node) for node in nodes_of(state) if node in lost]


def closings_of(state: JobState, snapshot: Snapshot) -> list[NodeClosed]:
    """An event for each node of the gang that takes no gangs, or that others hold a part of what the gang holds of it.

    The latter follows a state that could not be written: its gang gave the nodes back, another one was admitted there,
    and a new controller reads the state before.
    """
    table, free = snapshot.table, snapshot.free
    rows = {node: table.row[node] for node in nodes_of(state) if node in table.row}
    return [NodeClosed(node) for node, row in rows.items() if not table.usable[row] or (free[row] < 0).any()]


def nodes_of(state: JobState) -> tuple[str, ...]:
    """Nodes of the placement and of a pending resize, each once."""
    placements = (state.status.placement, state.status.resize_to)
    return tuple(
        dict.fromkeys(node for placement in placements if placement is not None for node in placement.distinct())
    )
