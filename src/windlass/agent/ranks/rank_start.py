"""Starts a generation on this node: new ranks, or survivors with a new membership and replacements of lost ranks."""

from __future__ import annotations

import socket

from windlass.agent import hang_detection
from windlass.agent.ranks import environment
from windlass.agent.ranks.late_survivors import LateSurvivors
from windlass.agent.ranks.rank_parts import RankParts
from windlass.agent.ranks.rank_table import NodeRank
from windlass.wire import Membership, RankExitCode


class RankStart:
    """The start of one generation; waits for the fork server. Reports a failure if a rank cannot be started."""

    def __init__(self, parts: RankParts, late_survivors: LateSurvivors) -> None:
        self._parts, self._late_survivors = parts, late_survivors
        self._waiting: tuple[socket.socket | None, bool] | None = None
        """Listener and `survivors` of a start that waits for the fork server."""

    def start(self, membership: Membership, listener: socket.socket | None, *, survivors: bool) -> None:
        """Starts this node's ranks, and the store where `listener` is given, once the fork server is ready."""
        self._parts.table.membership, self._parts.table.is_stopping = membership, False
        self._waiting = listener, survivors
        if self._parts.processes.torch is not None:
            self.start_waiting()

    def start_waiting(self) -> None:
        """Starts the ranks that wait for the fork server, if there are any."""
        if self._waiting is None:
            return
        (listener, survivors), self._waiting = self._waiting, None
        membership = self._membership()
        self._parts.table.take_all()
        self._parts.restarts.forget_first_steps()
        self._parts.status_file.begin(membership.generation)
        self._parts.messages.forget_heartbeats()
        self._parts.messages.forget_channels()
        self._parts.processes.forget_store()
        self._parts.processes.host_store(listener)
        for position in environment.rank_positions(membership):
            self._start_rank(position, survivors=survivors)

    def drop_waiting(self) -> None:
        """Cancels a start that waits for the fork server."""
        if self._waiting is not None and self._waiting[0] is not None:
            self._waiting[0].close()
        self._waiting = self._parts.table.membership = None

    def reform(self, membership: Membership, listener: socket.socket | None, reason: str) -> None:
        """Sends running ranks a new membership, and starts a new rank for each lost one."""
        table, messages = self._parts.table, self._parts.messages
        self._late_survivors.cancel()
        if not table.ranks:
            self.start(membership, listener, survivors=True)
            return
        messages.read_rings()
        self._parts.restarts.mark_reformed(reason)
        table.membership = membership
        messages.forget_heartbeats()
        self._parts.processes.kill_store()
        self._parts.processes.host_store(listener)
        before = table.take_all()
        survivors = [rank for rank in before.values() if rank.code is None and not rank.replaced]
        are_ready = all(rank.ready for rank in survivors)
        timeout = hang_detection.reform_timeout(messages.heartbeats) if are_ready else 0.0
        positions = list(zip(environment.rank_positions(membership), before.items()))
        self._update_status_file(
            membership, [(position, rank) for position, (_, rank) in positions if rank in survivors]
        )
        for position, (process_id, rank) in positions:
            if rank in survivors:
                messages.send(rank.number, membership._replace(rank=position.rank))
                rank.number, rank.ready, rank.survives = position.rank, False, True
                table.ranks[process_id] = rank
            else:
                self._start_rank(position, survivors=bool(survivors) or len(membership.members) > 1)
        messages.forget_channels()
        self._parts.restarts.track_first_steps(rank.number for rank in table.ranks.values())
        if survivors:
            self._late_survivors.begin(timeout)

    def replace(self, process_id: int) -> None:
        """Starts a new rank in the position of a late survivor that was killed, in the same generation."""
        rank = self._parts.table.ranks.pop(process_id)
        self._parts.messages.forget_rank(rank.number)
        positions = environment.rank_positions(self._membership())
        self._start_rank(next(each for each in positions if each.rank == rank.number), survivors=True)
        self._parts.table.sort()

    def _membership(self) -> Membership:
        membership = self._parts.table.membership
        assert membership is not None  # noqa: S101 - ranks are started for a membership
        return membership

    def _update_status_file(
        self, membership: Membership, survivors: list[tuple[environment.RankPosition, NodeRank]]
    ) -> None:
        variables = {
            rank.number: environment.generation_variables(position, membership) for position, rank in survivors
        }
        self._parts.status_file.begin_with_survivors(membership.generation, variables)

    def _start_rank(self, position: environment.RankPosition, *, survivors: bool) -> None:
        try:
            self._parts.processes.fork_rank(position, survivors=survivors)
        except (OSError, ValueError) as error:
            self._parts.reports.fail(RankExitCode.FATAL, f"cannot start ranks: {error}")
