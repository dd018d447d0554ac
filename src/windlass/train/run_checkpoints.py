"""The checkpoints of one run: resumes from the newest good one, saves when due, and saves before all ranks leave.

Its parts: `run_restore` loads, `run_saves` saves, `run_rollback` returns to an earlier checkpoint. The formats and the
storage are `windlass.train.checkpoint`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from windlass.train.checkpoint.rank_group import new_rank_group, run_on_first
from windlass.train.checkpoint.replicas.memory_replicas import MemoryReplicas, open_replicas, parse_steps
from windlass.train.checkpoint.save_interval import parse_interval
from windlass.train.checkpoint.shared_lease import SharedLease, take_lease
from windlass.train.checkpoint.store.inventory import newest_complete
from windlass.train.checkpoint.store.retention import Retention
from windlass.train.checkpoint.store.storage import open_storage
from windlass.train.checkpointed_run import CheckpointedRun
from windlass.train.data.batch import Batch
from windlass.train.health.loss_spike import LossWindow
from windlass.train.run_restore import LOSSES, RestoredState, restore_newest
from windlass.train.run_rollback import RollbackHistory, roll_back
from windlass.train.run_saves import RunSaves, SaveOptions
from windlass.train.step.consensus import StepReport
from windlass.train.training_state import TrainingState


class RunCheckpoints:
    """The checkpoints of a run, made by `Run.checkpoint`: `for batch in checkpoints.resume().steps(max_steps)`."""

    def __init__(
        self, run: CheckpointedRun, location: str, state: TrainingState, every: str, keep: int, replicas: str
    ) -> None:
        self._run, self._state = run, state
        self._storage = open_storage(location)
        self._options = SaveOptions(parse_interval(every), Retention(keep), parse_steps(replicas))
        interval = "at the interval of least cost" if self._options.every.is_adaptive else f"every {every.strip()}"
        self._description = f"checkpoints in {self._storage.location}, {interval}, the newest {keep} kept"
        self.create_groups()
        self._saves: RunSaves | None = None
        """Set after `resume`, except during in-place recovery."""
        self._lease: SharedLease | None = None
        self._rollbacks = RollbackHistory()
        run.add_reinit_hook(self)
        run.add_step_listener(self._on_step, self._is_save_due, self._save_duration, self._wait_until_staged)
        run.report_checkpoint_age(self._newest_age)

    def resume(self) -> Self:
        """Resume from the newest complete checkpoint; start from the beginning if there is none.

        A collective. Raises CheckpointError on all ranks alike; for a checkpoint of another model before anything is
        read, and where another run uses the location. A rank that joins running ranks receives their state instead,
        when the loop begins.
        """
        if not self._run.is_joining:
            self._run.print(self._description)
            self._take_lease()
            replicas = self._open_replicas()
            restored = restore_newest(self._run, self._state, self._storage, self._ranks, replicas)
            self._run.bad_steps.loss_window = LossWindow(restored.facts.get(LOSSES, ()))
            self._start_saves(replicas, restored)
        return self

    def steps(self, max_steps: int) -> Iterator[Batch]:
        """Yield batches until `max_steps` steps are done since the first start.

        Saves when due, when all ranks are asked to leave, and at the end. A failed save is reported and retried; raises
        CheckpointError when saves keep failing.
        """
        if self._saves is None:
            self.resume()
        try:
            yield from self._run.steps(self._state.data, max_steps)
            self._resumed.save_at_end()
        finally:
            if self._saves is not None:
                self._saves.close()
            if self._lease is not None:
                self._lease.release()

    def save(self, *, blocking: bool = False) -> None:
        """Save now. A collective. Unless `blocking`, the save continues in the background of the next steps.

        Where ranks are lost meanwhile nothing is saved, and the step is repeated.
        """
        self._run.run_unless_aborted(lambda: self._resumed.save(blocking=blocking))

    @property
    def _resumed(self) -> RunSaves:
        assert self._saves is not None, "resume() comes first"  # noqa: S101
        return self._saves

    def _open_replicas(self) -> MemoryReplicas | None:
        if self._options.replica_interval is None:
            return None
        with self._run.creating_groups():
            return open_replicas(self._storage.location, str(self._run.mesh.degrees), self._run.print)

    def _start_saves(self, replicas: MemoryReplicas | None, restored: RestoredState) -> None:
        assert self._lease is not None  # noqa: S101 - taken before anything was restored
        parts = self._run, self._state, self._storage, self._ranks, self._options
        self._saves = RunSaves(*parts, replicas, restored, self._lease)

    def _take_lease(self) -> None:
        """Take the lease of the location, or the next one after in-place recovery. A collective."""
        before = self._lease
        if before is not None:
            before.abandon()
        job = before.job if before is not None else ""
        self._lease = take_lease(self._storage, self._ranks, report=self._warn, job=job)

    def _warn(self, text: str) -> None:
        self._run.print(f"windlass: {text}", stream="stderr")

    # --- in-place recovery (recovery.in_place.ReinitHook) ----------------------------------------------

    def release_groups(self) -> None:
        """Abandon saves in flight: they cannot complete."""
        if self._saves is not None:
            self._saves.abandon()
            self._saves = None

    def create_groups(self) -> None:
        """Create the process group for saves. A collective."""
        with self._run.creating_groups():
            self._ranks = new_rank_group()

    def restore(self) -> None:
        """Continue to save after the newest checkpoint of the storage. A collective."""
        self._rollbacks = RollbackHistory()  # equal on all ranks; a new rank has counted none
        self._take_lease()
        replicas = self._open_replicas()
        newest = run_on_first(self._ranks, lambda: newest_complete(self._storage, self._run.steps_done))
        self._start_saves(replicas, RestoredState(*newest))

    # --- at each step --------------------------------------------------------------------------------

    def _is_save_due(self) -> bool:
        """Whether a save is due. The clock of the first rank decides for all."""
        run, saves = self._run, self._saves
        return saves is not None and run.world.is_first and saves.retrying.is_save_due(run.steps_done + 1)

    def _save_duration(self) -> float:
        """Seconds that the last save took on this rank."""
        return self._saves.duration if self._saves is not None else 0.0

    def _newest_age(self) -> float | None:
        """Seconds since the newest good checkpoint; None before this run has resumed."""
        return self._saves.retrying.newest_good_age if self._saves is not None else None

    def _wait_until_staged(self) -> None:
        if self._saves is not None:
            self._saves.wait_until_staged()

    def _on_step(self, outcome: StepReport) -> None:
        bad_steps = self._run.bad_steps
        why, bad_steps.rollback_reason = bad_steps.rollback_reason, ""
        if why and not outcome.stop:
            with self._run.during("save"):
                parts = self._run, self._state, self._storage, self._ranks, self._resumed
                self._rollbacks = roll_back(*parts, self._rollbacks, why)
            return
        if outcome.stop and not outcome.can_save:
            takes, left = outcome.save_duration_ms / 1000, outcome.time_left_ms / 1000
            last = f"the newest good one is of step {self._resumed.retrying.newest_good}"
            self._resumed.warn(
                f"stopping without a checkpoint: a save takes {takes:.1f} s, and {left:.1f} s are left; {last}"
            )
        elif outcome.stop:
            self._resumed.save_and_leave(outcome.time_left_ms / 1000)
        elif outcome.save:
            self._resumed.save()
        if not outcome.stop and self._saves is not None:
            self._saves.replicate_if_due()
