"""Attempts of jobs that ran on one node, from the database."""

from __future__ import annotations

from typing import NamedTuple

from windlass.backends.local.state_reader import StateReader

_STAYS = (
    "SELECT tasks.job_id, generation, COUNT(*), SUM(COALESCE(code, 0) != 0 OR signal IS NOT NULL)"
    " FROM tasks JOIN jobs ON jobs.id = tasks.job_id WHERE node = ?"
    " GROUP BY tasks.job_id, generation ORDER BY jobs.number DESC, generation DESC LIMIT ?"
)


class NodeStay(NamedTuple):
    """One attempt of a job on a node: the number of its ranks there, and of those that failed."""

    job_id: str
    generation: int
    ranks: int
    failed: int


def node_stays(records: StateReader, node: str, most: int) -> list[NodeStay]:
    """Returns the newest attempts on a node, those of the newest job first. Raises BackendError."""
    return [NodeStay(*row) for row in records.rows(_STAYS, (node, most))]
