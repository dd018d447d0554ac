"""Making copies: training waits until the state is staged; writing, sending and keeping happen in a thread behind it.

A step's older copy goes when every rank has the newer one, its own and its partner's. So whoever is killed, and when:
all ranks have one step in common.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from windlass.train.checkpoint import rng
from windlass.train.checkpoint.copies import file, whose
from windlass.train.checkpoint.staging import Stage, State, flattened, on_this_device
from windlass.train.checkpoint.store.errors import CheckpointError, RankGoneError
from windlass.train.checkpoint.store.trouble import reason
from windlass.train.checkpoint.together import Ranks, together

Tell = Callable[[str], None]
_TRIES = 3
"""Copies that fail in a row before no more are made."""


class CopyCost(NamedTuple):
    """Of the last copy on this rank: seconds that training waited, seconds until all had it, bytes."""

    stall: float
    duration: float
    size: int


class Copies:
    """The copies of this rank's state. All ranks call its methods in the same order."""

    def __init__(
        self, folder: Path, ranks: Ranks, nodes: Sequence[str], run: whose.Run, tell: Callable[[str], None]
    ) -> None:
        """`ranks`: on a group of their own. `nodes`: of each rank. `run`: as `whose.run_of`."""
        self._folder, self._ranks, self._run, self._tell = folder, ranks, run, tell
        found = whose.partners(nodes)
        self._to = found[ranks.rank]
        self._from = [rank for rank, partner in enumerate(found) if partner == ranks.rank]
        self._stage = Stage()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="copies", initializer=on_this_device())
        self._staged: Future[State] | None = None
        self._flight: Future[CopyCost] | None = None
        self._stall = 0.0
        self._failures = 0
        self.cost: CopyCost | None = None

    def begin(self, state: State, step: int, told: dict[str, Any], at_once: Collection[str]) -> None:
        """Begin to copy nested `state`; waits for the copy before.

        Parameters must not change before `wait_until_staged`. `at_once` names what a forward pass changes.
        """
        self.settle()
        if self._failures >= _TRIES:
            return
        begun = time.monotonic()
        told = {**told, "step": step, "generators": rng.captured()}
        self._staged = self._staging(state, at_once)
        self._flight = self._pool.submit(self._keep, self._staged, step, told, begun)
        self._stall = time.monotonic() - begun

    def wait_until_staged(self) -> None:
        """Return as soon as parameters may change."""
        if self._staged is not None:
            begun = time.monotonic()
            wait([self._staged])
            self._staged = None
            self._stall += time.monotonic() - begun

    def settle(self) -> None:
        """Wait for the copy in flight. A failure is told; after several no more are made. Raises RankGoneError."""
        if self._flight is None:
            return
        flight, self._flight = self._flight, None
        begun = time.monotonic()
        try:
            cost = flight.result()
        except RankGoneError:
            raise
        except CheckpointError as error:
            self._failures += 1
            rest = "no more are made" if self._failures >= _TRIES else "the next one is tried"
            self._tell(f"a copy in memory has failed: {error}; {rest}")
        else:
            self._failures = 0
            self.cost = cost._replace(stall=self._stall + time.monotonic() - begun)

    @property
    def is_done(self) -> bool:
        """Whether nothing is in flight on this rank any more; others may not be as far."""
        return self._flight is None or self._flight.done()

    def only(self, step: int | None) -> None:
        """Training goes on from there: what else is here belongs to a past that was given up. A collective."""
        self.settle()
        together(self._ranks, lambda: self._remove_all_but(step))

    def close(self) -> None:
        """Wait for what is in flight. What is in memory stays."""
        with contextlib.suppress(CheckpointError):
            self.settle()
        self._pool.shutdown()
        self._stage.close()

    def _staging(self, state: State, at_once: Collection[str]) -> Future[State]:
        """What goes wrong here goes wrong on this rank alone: it is kept for the background, where all hear of it."""
        try:
            return self._stage.begin(flattened(state), at_once)
        except Exception as error:  # noqa: BLE001
            failed: Future[State] = Future()
            failed.set_exception(error)
            return failed

    def _keep(self, staged: Future[State], step: int, told: dict[str, Any], begun: float) -> CopyCost:
        mine = whose.Copy(self._run, step, self._ranks.rank)
        path = self._folder / whose.name_of(mine)
        sizes = together(self._ranks, lambda: self._said(lambda: file.write(path, staged.result(), told)))
        received = self._exchanged(path, sizes)
        together(self._ranks, lambda: self._said(lambda: self._take(received, step)))
        # Of this run on other ranks too: fewer have gone on in place, and nobody will want what more of them had.
        removed(self._folder, lambda copy: copy.run.place == self._run.place and copy.step < step)
        return CopyCost(0.0, time.monotonic() - begun, sizes[self._ranks.rank])

    def _exchanged(self, path: Path, sizes: Sequence[int]) -> dict[int, torch.Tensor]:
        """Send this rank's copy to its partner; those that came here, by rank."""
        if not self._from and self._to is None:
            return {}
        received = {rank: torch.empty(sizes[rank], dtype=torch.uint8) for rank in self._from}
        mine = torch.from_file(str(path), shared=False, size=sizes[self._ranks.rank], dtype=torch.uint8)
        exchange(self._ranks, {} if self._to is None else {self._to: mine}, received)
        return received

    def _take(self, received: dict[int, torch.Tensor], step: int) -> None:
        for rank, data in received.items():
            copy = whose.Copy(self._run, step, rank)
            file.write_bytes(self._folder / whose.name_of(copy), data)

    def _remove_all_but(self, step: int | None) -> None:
        removed(self._folder, lambda copy: copy.step != step)
        for half in self._folder.glob(f"*{file.HALF}"):
            half.unlink(missing_ok=True)

    def _said(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except OSError as error:
            raise CheckpointError(f"{self._folder}: {reason(error)}; give it more room, or copy less often") from error


def removed(folder: Path, old: Callable[[whose.Copy], bool]) -> None:
    """Ranks of a node share the folder: what one of them removes may be gone already."""
    for path in folder.iterdir():
        copy = whose.copy_of(path.name)
        if copy is not None and old(copy):
            path.unlink(missing_ok=True)


def exchange(ranks: Ranks, sent: dict[int, torch.Tensor], received: dict[int, torch.Tensor]) -> None:
    """Send tensors to ranks while receiving from ranks. Raises RankGoneError."""
    try:
        under_way = [dist.isend(data, to, group=ranks.group) for to, data in sorted(sent.items())]
        under_way += [dist.irecv(data, source, group=ranks.group) for source, data in sorted(received.items())]
        for each in under_way:
            assert each is not None  # noqa: S101 - this rank is in the group
            each.wait()
    except RuntimeError as error:
        raise RankGoneError(f"another rank is gone: {str(error).splitlines()[0]}") from error
