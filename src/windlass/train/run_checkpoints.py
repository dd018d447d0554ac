"""Checkpoints of one run: resumes from the newest good one, saves when due, and saves before all ranks leave."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self

from windlass import wire
from windlass.train.checkpoint.adaptive_interval import AdaptiveInterval
from windlass.train.checkpoint.checkpoint_search import VerifiedCheckpoint, find_newest_good
from windlass.train.checkpoint.rank_group import new_rank_group, run_on_first
from windlass.train.checkpoint.replicas.memory_replicas import MemoryReplicas, open_replicas, parse_steps
from windlass.train.checkpoint.run_history import continue_history
from windlass.train.checkpoint.save_interval import parse_interval
from windlass.train.checkpoint.save_retry import RetryingSaver
from windlass.train.checkpoint.saver import CheckpointSaver
from windlass.train.checkpoint.state_loader import load_state, restore_generators
from windlass.train.checkpoint.store.errors import CheckpointError
from windlass.train.checkpoint.store.inventory import newest_complete
from windlass.train.checkpoint.store.retention import Retention
from windlass.train.checkpoint.store.storage import open_storage
from windlass.train.data.batch import Batch
from windlass.train.data.loader import Loader
from windlass.train.errors import TrainError
from windlass.train.health.loss_spike import LossWindow
from windlass.train.mesh.device_mesh import Mesh
from windlass.train.process_group import World
from windlass.train.recovery.in_place import ReinitHook
from windlass.train.step.consensus import StepReport
from windlass.train.telemetry.phase_timers import Phase
from windlass.train.training_state import TrainingState

_LOSSES = "losses"
"""Key of a manifest's facts: the losses of the last steps, which the loss of the next step is compared with."""


class CheckpointedRun(Protocol):
    """The part of a `Run` that its checkpoints read, restore and report to."""

    seed: int
    steps_done: int
    skipped: int
    loss_window: LossWindow
    rollback_reason: str
    world: World

    @property
    def mesh(self) -> Mesh:
        """The mesh that the run trains on."""

    @property
    def dropout_rank(self) -> int:
        """Index of the random stream of this rank: ranks that hold the same activations share one."""

    @property
    def is_joining(self) -> bool:
        """Whether this rank receives its state from running ranks instead of a checkpoint."""

    def steps(self, data: Loader, max_steps: int) -> Iterator[Batch]:
        """Yield batches until `max_steps` steps are done."""

    def add_step_listener(
        self,
        on_step: Callable[[StepReport], None],
        wants_save: Callable[[], bool],
        save_duration: Callable[[], float],
        before_update: Callable[[], None],
    ) -> None:
        """Register the callbacks of each step."""

    def add_reinit_hook(self, hook: ReinitHook) -> None:
        """Register a hook for in-place recovery."""

    def run_unless_aborted(self, work: Callable[[], None]) -> None:
        """Run `work` unless the step is aborted."""

    def creating_groups(self) -> contextlib.AbstractContextManager[None]:
        """Context in which process groups are created."""

    def during(self, phase: Phase) -> contextlib.AbstractContextManager[None]:
        """Context that counts as `phase` of the step."""

    def print(self, text: str, *, stream: Literal["stdout", "stderr"] = "stdout") -> None:
        """Print a line on the first rank."""


class RunCheckpoints:
    """The checkpoints of a run, made by `Run.checkpoint`: `for batch in checkpoints.resume().steps(max_steps)`."""

    def __init__(
        self, run: CheckpointedRun, location: str, state: TrainingState, every: str, keep: int, replicas: str
    ) -> None:
        self._run, self._state = run, state
        self._storage = open_storage(location)
        self._every = parse_interval(every)
        self._keep = Retention(keep)
        often = "at the interval of least cost" if self._every.is_adaptive else f"every {every.strip()}"
        self._description = f"checkpoints in {self._storage.text}, {often}, the newest {keep} kept"
        self._replica_interval = parse_steps(replicas)
        self.create_groups()
        self._retrying: RetryingSaver | None = None
        self._replicas: MemoryReplicas | None = None
        self._rollbacks = RollbackHistory()
        self._is_leaving = False
        """Whether this run is about to end in good order."""
        run.add_reinit_hook(self)
        run.add_step_listener(self._on_step, self._is_save_due, self._save_duration, self._wait_until_staged)

    def resume(self) -> Self:
        """Resume from the newest complete checkpoint; start from the beginning if there is none.

        A collective. Raises CheckpointError on all ranks alike; for a checkpoint of another model before anything is
        read. A rank that joins running ranks receives their state instead, when the loop begins.
        """
        if not self._run.is_joining:
            self._run.print(self._description)
            self._open_replicas()
            after, facts = self._from_replicas() or self._from_storage()
            self._run.loss_window = LossWindow(facts.get(_LOSSES, ()))
            self._start_saving(after, facts)
        return self

    def _open_replicas(self) -> None:
        if self._replica_interval is not None:
            with self._run.creating_groups():
                self._replicas = open_replicas(self._storage.text, str(self._run.mesh.degrees), self._run.print)

    def _start_saving(self, after: int | None, facts: Mapping[str, Any]) -> None:
        saver = CheckpointSaver(self._storage, self._ranks, after=after, keep=self._keep, rank_name=self._rank_name)
        history = continue_history(facts, int(os.environ.get(wire.GENERATION, "1")))
        self._retrying = RetryingSaver(
            saver, AdaptiveInterval(self._every, history, self._run.print), self._ranks, self._warn, begun=after
        )

    def steps(self, max_steps: int) -> Iterator[Batch]:
        """Yield batches until `max_steps` steps are done since the first start.

        Saves when due, when all ranks are stop requested, and at the end. A failed save is reported and retried; raises
        CheckpointError when saves keep failing.
        """
        if self._retrying is None:
            self.resume()
        try:
            yield from self._run.steps(self._state.data, max_steps)
            self._is_leaving = True
            self._save(blocking=True)
        finally:
            self._close()

    def save(self, *, blocking: bool = False) -> None:
        """Save now. A collective. Unless `blocking`, the save continues in the background of the next steps.

        Where ranks are lost meanwhile nothing is saved, and the step is repeated.
        """
        self._run.run_unless_aborted(lambda: self._save(blocking=blocking))

    def _save(self, *, blocking: bool = False) -> None:
        retrying = self._resumed
        with self._run.during("save") if blocking or retrying.is_busy else contextlib.nullcontext():
            if blocking:
                retrying.save_blocking(self._begin, self._run.steps_done)
            else:
                retrying.save(self._begin, self._run.steps_done)

    @property
    def _resumed(self) -> RetryingSaver:
        assert self._retrying is not None, "resume() comes first"  # noqa: S101
        return self._retrying

    @property
    def _rank_name(self) -> str:
        """The coordinates of this rank: its generator states belong to the rank with the same coordinates."""
        here = self._run.mesh.coordinates
        return f"{here.pp}-{here.dp}-{here.fsdp}-{here.cp}-{here.tp}"

    def _begin(self, blocking: bool) -> None:  # noqa: FBT001 - the signature of `Begin`
        run = self._run
        self._resumed.saver.save(
            self._state.tensors(),
            run.steps_done,
            samples=self._state.data.samples,
            mesh=str(run.mesh.degrees),
            facts=self._facts(),
            immediate=self._buffers(),
            blocking=blocking,
        )

    def _replicate(self) -> None:
        """Start an in-memory replica where one is due."""
        step = self._run.steps_done
        if self._replicas is not None and self._replica_interval is not None and step % self._replica_interval == 0:
            self._replicas.begin(self._state.tensors(), step, {"facts": self._facts()}, self._buffers())

    def _facts(self) -> dict[str, Any]:
        losses = list(self._run.loss_window.losses)
        window = {_LOSSES: losses} if losses else {}
        return {"seed": self._run.seed, **window, **self._resumed.interval.facts(leaves=self._is_leaving)}

    def _buffers(self) -> list[str]:
        """Names of the buffers, which the next forward pass may change while the rest is copied."""
        return [f"model.{name}" for name, _ in self._state.model.module.named_buffers()]

    def _from_storage(self) -> tuple[int | None, Mapping[str, Any]]:
        """Load the newest complete checkpoint; return its step and facts."""
        found = find_newest_good(self._storage, self._ranks, report=self._run.print)
        if found is not None:
            self._load_and_report(found)
        if self._replicas is not None:
            self._replicas.keep_only(None)
        return (None, {}) if found is None else (found.manifest.step, found.manifest.facts)

    def _from_replicas(self) -> tuple[int | None, Mapping[str, Any]] | None:
        """Load the newest replica, unless a checkpoint is newer.

        Returns the step of the newest checkpoint, and the facts.
        """
        if self._replicas is None:
            return None
        began = time.monotonic()
        newest, _ = run_on_first(self._ranks, lambda: newest_complete(self._storage))
        loaded = self._replicas.load_newest(self._state.tensors, least=newest or 1)
        if loaded is None:
            return None
        extra, tensors = loaded
        self._state.take(tensors)
        self._replicas.keep_only(self._run.steps_done)
        took = time.monotonic() - began
        self._run.print(f"resumed after step {self._run.steps_done}, from in-memory replicas in {took:.2f} s")
        return newest, extra["facts"]

    def _load_and_report(self, found: VerifiedCheckpoint) -> None:
        self._load(found)
        mesh = found.manifest.mesh
        again = "" if mesh == str(self._run.mesh.degrees) else f", saved on {mesh}"
        self._run.print(f"resumed after step {found.manifest.step}{again}")

    def _load(self, found: VerifiedCheckpoint) -> None:
        tensors = self._state.tensors()
        load_state(found, tensors, self._ranks)
        self._state.take(tensors)
        same_mesh = found.manifest.mesh == str(self._run.mesh.degrees)
        who = self._rank_name if same_mesh else "another mesh"
        restore_generators(found, self._ranks, who, seed=self._run.seed, alike=self._run.dropout_rank)

    # --- in-place recovery (recovery.in_place.ReinitHook) ----------------------------------------------

    def release_groups(self) -> None:
        """Abandon saves in flight: they cannot complete."""
        if self._retrying is not None:
            self._retrying.saver.abandon()
            self._retrying = None
        if self._replicas is not None:
            with contextlib.suppress(CheckpointError):
                self._replicas.close()
            self._replicas = None

    def create_groups(self) -> None:
        """Create the process group for saves. A collective."""
        with self._run.creating_groups():
            self._ranks = new_rank_group()

    def restore(self) -> None:
        """Continue to save after the newest checkpoint of the storage. A collective."""
        self._rollbacks = RollbackHistory()  # equal on all ranks; a new rank has counted none
        self._open_replicas()
        self._start_saving(*run_on_first(self._ranks, lambda: newest_complete(self._storage, self._run.steps_done)))

    # --- at each step --------------------------------------------------------------------------------

    def _is_save_due(self) -> bool:
        """Whether a save is due. The clock of the first rank decides for all."""
        run = self._run
        return self._retrying is not None and run.world.is_first and self._retrying.is_save_due(run.steps_done + 1)

    def _save_duration(self) -> float:
        """Seconds that the last save took on this rank."""
        cost = self._retrying.saver.cost if self._retrying is not None else None
        return cost.duration if cost is not None else 0.0

    def _wait_until_staged(self) -> None:
        if self._retrying is not None:
            self._retrying.saver.wait_until_staged()
        if self._replicas is not None:
            self._replicas.wait_until_staged()

    def _on_step(self, outcome: StepReport) -> None:
        why, self._run.rollback_reason = self._run.rollback_reason, ""
        if why and not outcome.stop:
            with self._run.during("save"):
                self._roll_back(why)
            return
        if outcome.stop and not outcome.can_save:
            takes, left = outcome.save_duration_ms / 1000, outcome.time_left_ms / 1000
            last = f"the newest good one is of step {self._resumed.newest_good}"
            self._warn(f"stopping without a checkpoint: a save takes {takes:.1f} s, and {left:.1f} s are left; {last}")
        elif outcome.stop:
            self._save_and_leave(outcome.time_left_ms / 1000)
        elif outcome.save:
            self._save()
        if not outcome.stop:
            self._replicate()

    def _roll_back(self, why: str) -> None:
        """Return to the newest good checkpoint, and continue after the bad batch.

        Raises TrainError where that cannot help.
        """
        run, retrying, data = self._run, self._resumed, self._state.data
        retrying.wait()
        step, used, newest = run.steps_done, data.samples, retrying.newest_good
        found = find_newest_good(self._storage, self._ranks, report=run.print, before=self._rollbacks.before(newest))
        if found is None:
            raise TrainError(f"{why}; there is no checkpoint to roll back to")
        back = found.manifest.step
        self._rollbacks = self._rollbacks.after(newest, back)
        if self._rollbacks.count > MAX_ROLLBACKS:
            raise TrainError(f"{why}; {MAX_ROLLBACKS} rollbacks in a row, each to an older checkpoint, did not help")
        self._load(found)
        skipped, data.samples = (used - data.samples) // data.global_batch, used
        run.skipped, run.loss_window = 0, LossWindow(found.manifest.facts.get(_LOSSES, ()))
        retrying.rewind_to(back)
        if self._replicas is not None:
            self._replicas.keep_only(None)
        count = f"rollback {self._rollbacks.count} of at most {MAX_ROLLBACKS} in a row"
        self._warn(
            f"{why}\nrolling back from step {step} to the checkpoint of step {back}, continuing with sample {used:,}: "
            f"{skipped} batches are skipped ({count})"
        )

    def _save_and_leave(self, seconds: float) -> None:
        """Save before leaving. Raises CheckpointError where progress is lost: that must not look like a clean end."""
        step, self._is_leaving = self._run.steps_done, True
        try:
            with self._run.during("save"):
                self._resumed.save_blocking(self._begin, step, seconds=seconds)
        except CheckpointError as error:
            good = self._resumed.newest_good
            raise CheckpointError(
                f"the final save has failed: {error}\n"
                f"the newest good checkpoint is of step {good}: {step - good} steps will be repeated"
            ) from error

    def _close(self) -> None:
        """Close what is in flight after the loop ended early or by an error, without hiding that error."""
        if self._retrying is None:
            return
        try:
            with self._run.during("save"):
                if self._replicas is not None:
                    self._replicas.close()
                self._resumed.saver.close()
        except CheckpointError as error:
            self._warn(f"the last checkpoint was not saved: {error}")

    def _warn(self, text: str) -> None:
        self._run.print(f"windlass: {text}", stream="stderr")


MAX_ROLLBACKS = 3
"""Maximum number of rollbacks in a row, each to an older checkpoint, without a newer good checkpoint."""


@dataclass(frozen=True, slots=True)
class RollbackHistory:
    """The rollbacks since the last good checkpoint."""

    count: int = 0
    step: int = 0
    """Target step of the last rollback."""

    def before(self, newest: int) -> int | None:
        """Return the newest step that the next rollback may use; None for any. `newest`: step of the newest checkpoint.

        A checkpoint that has led to a bad step is not used twice, because it may contain the cause already.
        """
        return self.step - 1 if self.count and newest <= self.step else None

    def after(self, newest: int, step: int) -> RollbackHistory:
        """Count a rollback to `step`; it is the first again where a newer checkpoint was saved meanwhile."""
        return RollbackHistory(self.count + 1 if self.count and newest <= self.step else 1, step)
