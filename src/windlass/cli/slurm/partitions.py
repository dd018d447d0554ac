"""Partitions of Slurm's commands: the queues, which share all nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

DEFAULT = "default"
"""The queue of a job that names none."""
Row = dict[str, Any]


class Queues(Protocol):
    """A client of the controller."""

    def queues(self) -> list[Row]:
        """Queues with quota and usage."""


def read_partitions(client: Queues) -> list[Row]:
    """The queues that are declared or used; without any, the one that every job without a queue has."""
    return client.queues() or [{"name": DEFAULT, "quota": {}, "used": {}, "waiting": 0, "running": 0}]


def partition_names(queues: Iterable[Row], chosen: str = "") -> list[str]:
    """Names of queues, the default first; of those alone that are named in `chosen`, if it names any."""
    wanted = {name for name in chosen.split(",") if name}
    names = [queue["name"] for queue in queues if not wanted or queue["name"] in wanted]
    return sorted(names, key=lambda name: (name != DEFAULT, name))
