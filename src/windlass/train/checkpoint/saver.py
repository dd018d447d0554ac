"""Saves checkpoints: training waits for a copy at most; one background thread writes, checks and commits.

Every rank takes the same steps in the same order, on a group of their own, and learns the errors of all ranks after
each, so no rank branches on what only it knows.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Self

from windlass.train.checkpoint import rng_state
from windlass.train.checkpoint.checkpoint_writer import CheckpointWriter, SaveCost, SaveRequest
from windlass.train.checkpoint.rank_group import RankGroup, run_on_first
from windlass.train.checkpoint.shared_lease import SharedLease, take_lease
from windlass.train.checkpoint.staging import StagingBuffer, StateDict, device_initializer, flatten
from windlass.train.checkpoint.store.errors import CheckpointError, OptionError, StorageUnusableError
from windlass.train.checkpoint.store.inventory import candidate_keys, incomplete_folders
from windlass.train.checkpoint.store.layout import CONTROL, INCOMPLETE_SUFFIX, key_of
from windlass.train.checkpoint.store.reader_lease import CheckpointRemover
from windlass.train.checkpoint.store.retention import Retention
from windlass.train.checkpoint.store.storage import StorageBackend

_PROBE_NAME = f"{CONTROL}/probe"
_ABANDON_TIMEOUT_S = 0.3
"""Seconds for a writing thread to notice that it is abandoned; otherwise it runs until its next collective fails."""


class CheckpointSaver:
    """Saves to one storage, one save at a time.

    All ranks create it, and call each of its methods, in the same order.
    """

    def __init__(
        self,
        storage: StorageBackend,
        ranks: RankGroup,
        *,
        after: int | None,
        keep: Retention | None = None,
        rank_name: str = "",
        lease: SharedLease | None = None,
    ) -> None:
        """`after`: the loaded step, None if nothing was loaded.

        `rank_name`: the rank's coordinates, for its generators. `lease`: of this storage, taken before the step was
        loaded; without it one is taken here, and ends with `close`.

        Incomplete saves are removed. Raises CheckpointError on all ranks where the storage cannot be written, is in use
        by another run, or has checkpoints and none was loaded.
        """
        self._lease = lease or take_lease(storage, ranks)
        self._owns_lease = lease is None
        self._storage = storage
        self._ranks = ranks
        self._writer = CheckpointWriter(storage, ranks, self._lease, keep or Retention(), rank_name or str(ranks.rank))
        self._last = after
        self._stage = StagingBuffer()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="checkpoint", initializer=device_initializer())
        self._in_flight: tuple[int, Future[SaveCost]] | None = None
        self._staged: Future[StateDict] | None = None
        self._stall = 0.0
        self.cost: SaveCost | None = None
        """Cost of the last good save."""
        try:
            run_on_first(ranks, lambda: _prepare_storage(storage, after, self._lease, self._writer.remover))
        except CheckpointError:
            self.close()
            raise

    def save(
        self,
        state: StateDict,
        step: int,
        *,
        samples: int = 0,
        mesh: str = "",
        facts: Mapping[str, Any] | None = None,
        immediate: Collection[str] = (),
        blocking: bool = False,
    ) -> None:
        """Start to save `state`, nested dicts of tensors and picklable values, as of `step`.

        Unless `blocking`, parameters must not change before `wait_until_staged`. `immediate` names tensors that a
        forward pass changes: of copies that differ by rank, the lowest rank's is saved. A step that is already saved is
        not saved again. Raises CheckpointError on all ranks if the previous save failed.
        """
        self.wait()
        if step == self._last:
            return
        if self._last is not None and step < self._last:
            raise OptionError(f"step {step} precedes step {self._last}, which is saved: rewind to {step} first")
        begun = time.monotonic()
        copied = partial(self._copy, state, immediate, blocking=blocking)
        request = _build_request(copied, step, samples, mesh, facts or {}, begun)
        request = replace(request, lowest_rank_names=tuple(immediate))
        self._staged = request.state
        self._in_flight = step, self._pool.submit(self._writer.write, request, self._last)
        self._stall = time.monotonic() - begun
        if blocking:
            self.wait()

    def wait_until_staged(self) -> None:
        """Wait until the optimizer may change the parameters again."""
        begun = time.monotonic()
        if self._staged is not None:
            wait([self._staged])
            self._staged = None
            self._stall += time.monotonic() - begun

    def wait(self) -> None:
        """Wait until the save in flight is good. Raises CheckpointError, equal on all ranks, if it failed."""
        if self._in_flight is None:
            return
        (step, flight), self._in_flight = self._in_flight, None
        begun = time.monotonic()
        cost = flight.result()
        self.cost = cost._replace(stall=self._stall + time.monotonic() - begun)
        self._last = step

    @property
    def in_flight(self) -> int | None:
        """The step of the save in flight; None without one."""
        return self._in_flight[0] if self._in_flight else None

    @property
    def ended(self) -> SaveCost | BaseException | None:
        """Result of the save in flight on this rank; None while it continues. Other ranks may not have it yet."""
        if self._in_flight is None or not self._in_flight[1].done():
            return None
        return self._in_flight[1].exception() or self._in_flight[1].result()

    def rewind_to(self, step: int) -> None:
        """Continue from an older checkpoint: newer ones are removed by the next save. A collective."""
        self.wait()
        self._lease.advance()
        self._last = step

    def abandon(self) -> None:
        """Abandon the save in flight after the loss of ranks: its thread fails at its next collective."""
        if self._in_flight is not None:
            wait([self._in_flight[1]], timeout=_ABANDON_TIMEOUT_S)
        self._pool.shutdown(wait=False)
        self._stage.abandon()
        if self._owns_lease:
            self._lease.abandon()

    def close(self) -> None:
        """Wait for the save in flight, and free host memory. Raises as `wait`."""
        try:
            self.wait()
        finally:
            self._pool.shutdown()
            self._stage.close()
            if self._owns_lease:
                self._lease.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _at: TracebackType | None
    ) -> None:
        with contextlib.suppress(CheckpointError) if error else contextlib.nullcontext():
            self.close()

    def _copy(self, state: StateDict, immediate: Collection[str], *, blocking: bool) -> Future[StateDict]:
        whole = flatten(state)
        return _completed_future(whole) if blocking else self._stage.begin(whole, immediate)


def _build_request(
    copied: Callable[[], Future[StateDict]], step: int, samples: int, mesh: str, facts: Mapping[str, Any], begun: float
) -> SaveRequest:
    """Build the request. An error of this rank alone is kept for the background, where all ranks learn it."""
    copied_facts: dict[str, Any] = {}
    generators = rng_state.capture()  # before other threads start, which share Python's lock
    try:
        copied_facts = json.loads(json.dumps(dict(facts), allow_nan=False))
        state = copied()
    except Exception as error:  # noqa: BLE001
        state = Future()
        state.set_exception(error)
    return SaveRequest(step, samples, mesh, copied_facts, generators, state, begun)


def _completed_future(state: StateDict) -> Future[StateDict]:
    ready: Future[StateDict] = Future()
    ready.set_result(state)
    return ready


def _prepare_storage(
    storage: StorageBackend, after: int | None, lease: SharedLease, remover: CheckpointRemover
) -> None:
    """Check that the storage can be written and cleaned and belongs to this run; remove incomplete saves.

    Those of later leases stay, because their writers may commit them at any moment.
    """
    lease.check()
    storage.write(_PROBE_NAME, b"")
    storage.remove(_PROBE_NAME)
    remover.remove_stale_marks()
    dead = [name for name in incomplete_folders(storage) if _token_of(name) <= lease.token]
    if after is None and (others := [key for key in candidate_keys(storage) if key.folder not in dead]):
        raise StorageUnusableError(
            f"{storage.location} has checkpoints up to step {others[0].step:,}, and none of them was loaded\n"
            "resume from the newest one, or use another location for this run"
        )
    for folder in dead:
        storage.remove(folder)


def _token_of(folder: str) -> int:
    """Return the token in the name of a folder of checkpoints, also of an incomplete one."""
    key = key_of(folder.removesuffix(INCOMPLETE_SUFFIX))
    return key.token if key is not None else 0
