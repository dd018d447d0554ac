"""The copies of one run: opened where every rank has an agent, made every so many steps, and gone on from."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from windlass import wire
from windlass.train.checkpoint import rng
from windlass.train.checkpoint.copies import recovering, whose
from windlass.train.checkpoint.copies.keeping import Copies
from windlass.train.checkpoint.due import every_of
from windlass.train.checkpoint.staging import State
from windlass.train.checkpoint.store.errors import OptionError
from windlass.train.checkpoint.together import Ranks, all_ranks, together

Tell = Callable[[str], None]
_MIB = 1 << 20


class Memory:
    """Made by `opened`. All ranks call its methods in the same order."""

    def __init__(self, folder: Path, ranks: Ranks, nodes: list[str], run: whose.Run, tell: Tell) -> None:
        self._folder, self._ranks, self._run, self._tell = folder, ranks, run, tell
        self._copies = Copies(folder, ranks, nodes, run, tell)
        self._counted = 0
        self.wait_until_staged = self._copies.wait_until_staged
        self.close = self._copies.close
        self.only = self._copies.only

    def take(self, state: Callable[[], State], *, least: int) -> tuple[dict[str, Any], State] | None:
        """(what went along, the state) of the newest step, not before `least`; None if there is none. A collective.

        `state` is asked for only if there is one, as asking makes an optimizer's averages. Generators of random numbers
        are set. Raises OtherModelError, before anything is changed.
        """
        found = recovering.newest(self._folder, self._ranks, self._run, self._tell, least=least)
        if found is None:
            return None
        told, taken = recovering.restore(found[1], state(), self._ranks)
        rng.restore(told["generators"])
        return told, taken

    def begin(self, state: State, step: int, told: dict[str, Any], at_once: Collection[str]) -> None:
        """See `Copies.begin`. What a copy costs is told once, of the second one: the first makes room."""
        self._copies.begin(state, step, told, at_once)
        cost = self._copies.cost
        self._counted += 1
        if self._counted == 3 and cost is not None:
            self._tell(
                f"copies in memory: training waits for {cost.stall * 1000:.1f} ms, "
                f"all have them after {cost.duration * 1000:.0f} ms, {cost.size / _MIB:.3g} MiB of each rank"
            )


def steps_of(text: str) -> int | None:
    """What "10 steps" means; None for "". Raises OptionError for a time: ranks would have to agree on it."""
    if not text:
        return None
    every = every_of(text)
    if every.steps is None:
        raise OptionError(f"copies={text!r}: copies in memory are made by steps, as 10 steps")
    return every.steps


def opened(place: str, mesh: str, tell: Tell) -> Memory | None:
    """Of this run; None, and a word about it, where a rank has no agent that keeps a folder. A collective."""
    ranks = all_ranks()
    folder = os.environ.get(wire.MEMORY, "")
    folders = together(ranks, lambda: folder)
    if not all(folders):
        tell("no copies in memory: they need windlass agent, which keeps them when ranks end")
        return None
    nodes = together(ranks, lambda: f"{socket.gethostname()}:{folder}")
    if len(set(nodes)) == 1:
        tell("copies in memory stay on this node: they survive its ranks")
    return Memory(Path(folder), ranks, nodes, whose.run_of(place, mesh, ranks.size), tell)
