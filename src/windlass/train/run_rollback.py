"""Returns a run to an earlier checkpoint after a bad step, such as a NaN loss; training skips the bad batches."""

from __future__ import annotations

from dataclasses import dataclass

from windlass.train.checkpoint.checkpoint_search import read_newest_good
from windlass.train.checkpoint.rank_group import RankGroup
from windlass.train.checkpoint.store.storage import StorageBackend
from windlass.train.checkpointed_run import CheckpointedRun
from windlass.train.errors import TrainError
from windlass.train.health.loss_spike import LossWindow
from windlass.train.run_restore import LOSSES, load_checkpoint
from windlass.train.run_saves import RunSaves
from windlass.train.training_state import TrainingState

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


def roll_back(
    run: CheckpointedRun,
    state: TrainingState,
    storage: StorageBackend,
    ranks: RankGroup,
    saves: RunSaves,
    history: RollbackHistory,
    why: str,
) -> RollbackHistory:
    """Return to the newest good checkpoint, and continue after the bad batch. A collective.

    Returns the history with this rollback. Raises TrainError where a rollback cannot help.
    """
    retrying, data = saves.retrying, state.data
    retrying.wait()
    step, used, newest = run.steps_done, data.samples, retrying.newest_good
    with read_newest_good(storage, ranks, report=run.print, before=history.before(newest)) as found:
        if found is None:
            raise TrainError(f"{why}; there is no checkpoint to roll back to")
        target = found.manifest.step
        history = history.after(newest, target)
        if history.count > MAX_ROLLBACKS:
            raise TrainError(f"{why}; {MAX_ROLLBACKS} rollbacks in a row, each to an older checkpoint, did not help")
        load_checkpoint(run, state, ranks, found)
    skipped, data.samples = (used - data.samples) // data.global_batch, used
    run.bad_steps.skipped, run.bad_steps.loss_window = 0, LossWindow(found.manifest.facts.get(LOSSES, ()))
    retrying.rewind_to(target)
    saves.drop_replicas()
    saves.warn(
        f"{why}\nrolling back from step {step} to the checkpoint of step {target}, continuing with sample {used:,}: "
        f"{skipped} batches are skipped (rollback {history.count} of at most {MAX_ROLLBACKS} in a row)"
    )
    return history
