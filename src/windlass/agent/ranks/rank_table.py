"""State of this node's ranks in the current generation, shared by the parts of `windlass.agent.ranks`."""

from __future__ import annotations

from windlass.wire import Membership


class NodeRank:
    """One rank of this node and its process."""

    def __init__(self, number: int, error_file: str) -> None:
        self.number = number
        """The rank, among all ranks of the gang."""
        self.error_file = error_file
        self.pid = 0
        self.code: int | None = None
        """The exit code; None while the process runs."""
        self.ready = False
        """The rank can take a new membership, so it has entered the current one."""
        self.survives = False
        """The rank is older than this generation and continues in it."""
        self.replaced = False
        """The rank was killed because it did not enter the current membership."""


class RankTable:
    """The ranks of one generation, by `process_id` (their number at the fork server), in the order of rank numbers."""

    def __init__(self) -> None:
        self.membership: Membership | None = None
        self.is_stopping = False
        self.ranks: dict[int, NodeRank] = {}

    @property
    def generation(self) -> int:
        """Generation of the ranks; 0 if there are none."""
        return self.membership.generation if self.membership else 0

    def alive(self) -> list[int]:
        """Process ids of the ranks that have not ended."""
        return [process_id for process_id, rank in self.ranks.items() if rank.code is None]

    def late_survivors(self) -> dict[int, NodeRank]:
        """Survivors that have not entered the current membership, by process id."""
        return {process_id: rank for process_id, rank in self.ranks.items() if rank.survives and not rank.ready}

    def take_all(self) -> dict[int, NodeRank]:
        """Removes and returns all ranks."""
        taken, self.ranks = self.ranks, {}
        return taken

    def sort(self) -> None:
        """Restores the order of rank numbers, on which the ranks' positions on this node depend."""
        self.ranks = dict(sorted(self.ranks.items(), key=lambda each: each[1].number))
