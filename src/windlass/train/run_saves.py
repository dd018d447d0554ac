"""Saves the state of a run after it has resumed: checkpoints in the storage, and in-memory replicas between them.

`checkpoint.save_retry` retries failed saves; `run_checkpoints` decides when to save.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, NamedTuple

from windlass import wire
from windlass.train.checkpoint.adaptive_interval import AdaptiveInterval
from windlass.train.checkpoint.rank_group import RankGroup
from windlass.train.checkpoint.replicas.memory_replicas import MemoryReplicas
from windlass.train.checkpoint.run_history import continue_history
from windlass.train.checkpoint.save_interval import SaveInterval
from windlass.train.checkpoint.save_retry import RetryingSaver
from windlass.train.checkpoint.saver import CheckpointSaver
from windlass.train.checkpoint.shared_lease import SharedLease
from windlass.train.checkpoint.store.errors import CheckpointError
from windlass.train.checkpoint.store.retention import Retention
from windlass.train.checkpoint.store.storage import StorageBackend
from windlass.train.checkpointed_run import CheckpointedRun
from windlass.train.run_restore import LOSSES, RestoredState, rank_name
from windlass.train.training_state import TrainingState


class SaveOptions(NamedTuple):
    """Options of `Run.checkpoint`."""

    every: SaveInterval
    keep: Retention
    replica_interval: int | None
    """Steps between two in-memory replicas; None: there are none."""


class RunSaves:
    """The saves of one generation of ranks: after in-place recovery there is a new one."""

    def __init__(
        self,
        run: CheckpointedRun,
        state: TrainingState,
        storage: StorageBackend,
        ranks: RankGroup,
        options: SaveOptions,
        replicas: MemoryReplicas | None,
        restored: RestoredState,
        lease: SharedLease,
    ) -> None:
        self._run, self._state, self._options, self._replicas = run, state, options, replicas
        saver = CheckpointSaver(
            storage, ranks, after=restored.newest, keep=options.keep, rank_name=rank_name(run), lease=lease
        )
        history = continue_history(restored.facts, int(os.environ.get(wire.GENERATION, "1")))
        interval = AdaptiveInterval(options.every, history, run.print)
        self.retrying = RetryingSaver(saver, interval, ranks, self.warn, begun=restored.newest)
        self._is_leaving = False
        """Whether this run is about to end in good order."""

    def save(self, *, blocking: bool = False) -> None:
        """Saves now. A collective."""
        waits = blocking or self.retrying.saver.in_flight is not None  # equal on all ranks: phases are counted
        with self._run.during("save") if waits else contextlib.nullcontext():
            if blocking:
                self.retrying.save_blocking(self._begin, self._run.steps_done)
            else:
                self.retrying.save(self._begin, self._run.steps_done)

    def save_at_end(self) -> None:
        """Saves after the last step. A collective."""
        self._is_leaving = True
        self.save(blocking=True)

    def save_and_leave(self, seconds: float) -> None:
        """Saves before leaving. Raises CheckpointError where progress is lost: that must not look like a clean end."""
        step, self._is_leaving = self._run.steps_done, True
        try:
            with self._run.during("save"):
                self.retrying.save_blocking(self._begin, step, seconds=seconds)
        except CheckpointError as error:
            good = self.retrying.newest_good
            raise CheckpointError(
                f"the final save has failed: {error}\n"
                f"the newest good checkpoint is of step {good}: {step - good} steps will be repeated"
            ) from error

    def replicate_if_due(self) -> None:
        """Starts an in-memory replica after every so many steps."""
        step, every = self._run.steps_done, self._options.replica_interval
        if self._replicas is not None and every is not None and step % every == 0:
            self._replicas.begin(self._state.tensors(), step, {"facts": self._facts()}, self._buffers())

    def drop_replicas(self) -> None:
        """Removes all in-memory replicas: the run continues from an older state."""
        if self._replicas is not None:
            self._replicas.keep_only(None)

    @property
    def duration(self) -> float:
        """Seconds that the last save took on this rank; 0 before the first."""
        cost = self.retrying.saver.cost
        return cost.duration if cost is not None else 0.0

    def wait_until_staged(self) -> None:
        """Waits until the state is copied, so that the optimizer may change it."""
        self.retrying.saver.wait_until_staged()
        if self._replicas is not None:
            self._replicas.wait_until_staged()

    def abandon(self) -> None:
        """Abandons saves in flight: ranks are lost, so they cannot complete."""
        self.retrying.saver.abandon()
        if self._replicas is not None:
            with contextlib.suppress(CheckpointError):
                self._replicas.close()

    def close(self) -> None:
        """Closes what is in flight after the loop has ended early or by an error, without hiding that error."""
        try:
            with self._run.during("save"):
                if self._replicas is not None:
                    self._replicas.close()
                self.retrying.saver.close()
        except CheckpointError as error:
            self.warn(f"the last checkpoint was not saved: {error}")

    def warn(self, text: str) -> None:
        """Prints a line on the first rank's stderr."""
        self._run.print(f"windlass: {text}", stream="stderr")

    def _begin(self, blocking: bool) -> None:  # noqa: FBT001 - the signature of `Begin`
        run = self._run
        self.retrying.saver.save(
            self._state.tensors(),
            run.steps_done,
            samples=self._state.data.samples,
            mesh=str(run.mesh.degrees),
            facts=self._facts(),
            immediate=self._buffers(),
            blocking=blocking,
        )

    def _facts(self) -> dict[str, Any]:
        losses = list(self._run.bad_steps.loss_window.losses)
        window = {LOSSES: losses} if losses else {}
        return {"seed": self._run.seed, **window, **self.retrying.interval.facts(leaves=self._is_leaving)}

    def _buffers(self) -> list[str]:
        """Names of the buffers, which the next forward pass may change while the rest is copied."""
        return [f"model.{name}" for name, _ in self._state.model.module.named_buffers()]
