"""Writes in-memory replicas: training waits for staging; a background thread writes, sends and stores them.

The replica of an older step is removed when every rank has the newer one, its own and its partner's. Whenever a rank is
killed, all ranks therefore have one step in common.
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

from windlass.train.checkpoint import rng_state
from windlass.train.checkpoint.rank_group import RankGroup, run_on_all
from windlass.train.checkpoint.replicas import replica_file, replica_placement
from windlass.train.checkpoint.staging import StagingBuffer, StateDict, device_initializer, flatten
from windlass.train.checkpoint.store.errors import CheckpointError, RankGoneError
from windlass.train.checkpoint.store.storage_errors import error_reason

Report = Callable[[str], None]
_MAX_FAILURES = 3
"""Number of failures in a row after which no more replicas are made."""


class ReplicaCost(NamedTuple):
    """Cost of the last replica on this rank: seconds that training waited, seconds until all ranks had it, bytes."""

    stall: float
    duration: float
    size: int


class ReplicaWriter:
    """Writes the replicas of this rank's state. All ranks call its methods in the same order."""

    def __init__(
        self,
        folder: Path,
        ranks: RankGroup,
        nodes: Sequence[str],
        run: replica_placement.RunKey,
        report: Callable[[str], None],
    ) -> None:
        """`ranks`: with a group of their own. `nodes`: of each rank. `run`: as `replica_placement.run_key`."""
        self._folder, self._ranks, self._run, self._report = folder, ranks, run, report
        found = replica_placement.partner_ranks(nodes)
        self._partner = found[ranks.rank]
        self._sources = [rank for rank, partner in enumerate(found) if partner == ranks.rank]
        self._stage = StagingBuffer()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="replicas", initializer=device_initializer())
        self._staged: Future[StateDict] | None = None
        self._in_flight: Future[ReplicaCost] | None = None
        self._stall = 0.0
        self._failures = 0
        self.cost: ReplicaCost | None = None

    def begin(self, state: StateDict, step: int, extra: dict[str, Any], immediate: Collection[str]) -> None:
        """Start a replica of nested `state`, after the previous one is complete.

        Parameters must not change before `wait_until_staged`. `immediate` names what a forward pass changes.
        """
        self.wait()
        if self._failures >= _MAX_FAILURES:
            return
        begun = time.monotonic()
        extra = {**extra, "step": step, "generators": rng_state.capture()}
        self._staged = self._start_staging(state, immediate)
        self._in_flight = self._pool.submit(self._replicate, self._staged, step, extra, begun)
        self._stall = time.monotonic() - begun

    def wait_until_staged(self) -> None:
        """Wait until parameters may change."""
        if self._staged is not None:
            begun = time.monotonic()
            wait([self._staged])
            self._staged = None
            self._stall += time.monotonic() - begun

    def wait(self) -> None:
        """Wait for the replica in flight. A failure is reported; after several no more are made.

        Raises RankGoneError.
        """
        if self._in_flight is None:
            return
        flight, self._in_flight = self._in_flight, None
        begun = time.monotonic()
        try:
            cost = flight.result()
        except RankGoneError:
            raise
        except CheckpointError as error:
            self._failures += 1
            rest = "no more are made" if self._failures >= _MAX_FAILURES else "the next one is tried"
            self._report(f"an in-memory replica has failed: {error}; {rest}")
        else:
            self._failures = 0
            self.cost = cost._replace(stall=self._stall + time.monotonic() - begun)

    @property
    def is_done(self) -> bool:
        """Whether no replica is in flight on this rank; other ranks may still have one."""
        return self._in_flight is None or self._in_flight.done()

    def keep_only(self, step: int | None) -> None:
        """Remove all replicas but those of `step`, from which training continues. A collective."""
        self.wait()
        run_on_all(self._ranks, lambda: self._remove_all_but(step))

    def close(self) -> None:
        """Wait for the replica in flight. Stored replicas stay."""
        with contextlib.suppress(CheckpointError):
            self.wait()
        self._pool.shutdown()
        self._stage.close()

    def _start_staging(self, state: StateDict, immediate: Collection[str]) -> Future[StateDict]:
        """Stage the state. An error of this rank alone is kept for the background, where all ranks learn it."""
        try:
            return self._stage.begin(flatten(state), immediate)
        except Exception as error:  # noqa: BLE001
            failed: Future[StateDict] = Future()
            failed.set_exception(error)
            return failed

    def _replicate(self, staged: Future[StateDict], step: int, extra: dict[str, Any], begun: float) -> ReplicaCost:
        mine = replica_placement.Replica(self._run, step, self._ranks.rank)
        path = self._folder / replica_placement.file_name(mine)
        sizes = run_on_all(
            self._ranks, lambda: self._translating(lambda: replica_file.write_replica(path, staged.result(), extra))
        )
        received = self._exchange(path, sizes)
        run_on_all(self._ranks, lambda: self._translating(lambda: self._store_received(received, step)))
        # Also those of this run on other numbers of ranks: after in-place recovery on fewer ranks they are of no use.
        remove_replicas(
            self._folder, lambda replica: replica.run.location == self._run.location and replica.step < step
        )
        return ReplicaCost(0.0, time.monotonic() - begun, sizes[self._ranks.rank])

    def _exchange(self, path: Path, sizes: Sequence[int]) -> dict[int, torch.Tensor]:
        """Send this rank's replica to its partner; return the received ones, by rank."""
        if not self._sources and self._partner is None:
            return {}
        received = {rank: torch.empty(sizes[rank], dtype=torch.uint8) for rank in self._sources}
        mine = torch.from_file(str(path), shared=False, size=sizes[self._ranks.rank], dtype=torch.uint8)
        exchange_tensors(self._ranks, {} if self._partner is None else {self._partner: mine}, received)
        return received

    def _store_received(self, received: dict[int, torch.Tensor], step: int) -> None:
        for rank, data in received.items():
            replica = replica_placement.Replica(self._run, step, rank)
            replica_file.write_bytes(self._folder / replica_placement.file_name(replica), data)

    def _remove_all_but(self, step: int | None) -> None:
        remove_replicas(self._folder, lambda replica: replica.step != step)
        for half in self._folder.glob(f"*{replica_file.PARTIAL_SUFFIX}"):
            half.unlink(missing_ok=True)

    def _translating(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except OSError as error:
            raise CheckpointError(
                f"{self._folder}: {error_reason(error)}; give it more memory, or make replicas less often"
            ) from error


def remove_replicas(folder: Path, matches: Callable[[replica_placement.Replica], bool]) -> None:
    """Remove replicas that match. Ranks of a node share the folder, so another rank may have removed one already."""
    for path in folder.iterdir():
        replica = replica_placement.parse_file_name(path.name)
        if replica is not None and matches(replica):
            path.unlink(missing_ok=True)


def exchange_tensors(ranks: RankGroup, sent: dict[int, torch.Tensor], received: dict[int, torch.Tensor]) -> None:
    """Send and receive tensors at the same time. Raises RankGoneError."""
    try:
        under_way = [dist.isend(data, to, group=ranks.group) for to, data in sorted(sent.items())]
        under_way += [dist.irecv(data, source, group=ranks.group) for source, data in sorted(received.items())]
        for each in under_way:
            assert each is not None  # noqa: S101 - this rank is in the group
            each.wait()
    except RuntimeError as error:
        raise RankGoneError(f"another rank is gone: {str(error).splitlines()[0]}") from error
