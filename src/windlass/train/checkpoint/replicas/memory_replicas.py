"""The in-memory replicas of one run: opened where every rank has an agent, made every few steps, and resumed from.

`replica_writer` makes them, `replica_search` finds the newest ones of all ranks.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from windlass import wire
from windlass.train.checkpoint import rng_state
from windlass.train.checkpoint.rank_group import RankGroup, new_rank_group, run_on_all
from windlass.train.checkpoint.replicas import replica_placement, replica_search
from windlass.train.checkpoint.replicas.replica_writer import ReplicaWriter
from windlass.train.checkpoint.save_interval import parse_interval
from windlass.train.checkpoint.staging import StateDict
from windlass.train.checkpoint.store.errors import OptionError

Report = Callable[[str], None]
_MIB = 1 << 20


class MemoryReplicas:
    """The replicas of one run, made by `open_replicas`. All ranks call its methods in the same order."""

    def __init__(
        self, folder: Path, ranks: RankGroup, nodes: list[str], run: replica_placement.RunKey, report: Report
    ) -> None:
        self._folder, self._ranks, self._run, self._report = folder, ranks, run, report
        self._writer = ReplicaWriter(folder, ranks, nodes, run, report)
        self._begun = 0
        self.wait_until_staged = self._writer.wait_until_staged
        self.close = self._writer.close
        self.keep_only = self._writer.keep_only

    def load_newest(self, state: Callable[[], StateDict], *, least: int) -> tuple[dict[str, Any], StateDict] | None:
        """Return (further values, the state) of the newest step, at least `least`; None if there is none. A collective.

        `state` is called only if there is one, because the call allocates an optimizer's averages. Random generators
        are restored. Raises ModelMismatchError before any change.
        """
        found = replica_search.find_newest(self._folder, self._ranks, self._run, self._report, least=least)
        if found is None:
            return None
        extra, taken = replica_search.restore_state(found[1], state(), self._ranks)
        rng_state.restore(extra["generators"])
        return extra, taken

    def begin(self, state: StateDict, step: int, extra: dict[str, Any], immediate: Collection[str]) -> None:
        """Start a replica, as `ReplicaWriter.begin`.

        The cost of the second one is reported; the first allocates memory.
        """
        self._writer.begin(state, step, extra, immediate)
        cost = self._writer.cost
        self._begun += 1
        if self._begun == 3 and cost is not None:
            self._report(
                f"in-memory replicas: training waits for {cost.stall * 1000:.1f} ms, "
                f"all have them after {cost.duration * 1000:.0f} ms, {cost.size / _MIB:.3g} MiB of each rank"
            )


def parse_steps(text: str) -> int | None:
    """Parse "10 steps"; None for "". Raises OptionError for a time, on which ranks would have to agree."""
    if not text:
        return None
    every = parse_interval(text)
    if every.steps is None:
        raise OptionError(f"replicas={text!r}: in-memory replicas are made by steps, as 10 steps")
    return every.steps


def open_replicas(location: str, mesh: str, report: Report) -> MemoryReplicas | None:
    """Open the replicas of this run; None, with a message, where a rank has no agent with a folder. A collective."""
    ranks = new_rank_group()
    folder = os.environ.get(wire.MEMORY, "")
    folders = run_on_all(ranks, lambda: folder)
    if not all(folders):
        report("no in-memory replicas: they need windlass agent, which keeps them when ranks end")
        return None
    nodes = run_on_all(ranks, lambda: f"{socket.gethostname()}:{folder}")
    if len(set(nodes)) == 1:
        report("in-memory replicas stay on this node: they survive its ranks, not the node")
    return MemoryReplicas(Path(folder), ranks, nodes, replica_placement.run_key(location, mesh, ranks.size), report)
