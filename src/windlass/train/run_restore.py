"""Restores the state of a run: from in-memory replicas, from the newest good checkpoint, or from an older one."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from windlass.train.checkpoint.checkpoint_search import VerifiedCheckpoint, read_newest_good
from windlass.train.checkpoint.rank_group import RankGroup, run_on_first
from windlass.train.checkpoint.replicas.memory_replicas import MemoryReplicas
from windlass.train.checkpoint.state_loader import load_state, restore_generators
from windlass.train.checkpoint.store.inventory import newest_complete
from windlass.train.checkpoint.store.storage import StorageBackend
from windlass.train.checkpointed_run import CheckpointedRun
from windlass.train.training_state import TrainingState

LOSSES = "losses"
"""Key of a manifest's facts: the losses of the last steps, which the loss of the next step is compared with."""


class RestoredState(NamedTuple):
    """The saved state that a run continues from."""

    newest: int | None
    """Step of the newest checkpoint of the storage; None if there is none."""
    facts: Mapping[str, Any]
    """Facts of the manifest, or of the in-memory replica that is newer."""


def restore_newest(
    run: CheckpointedRun,
    state: TrainingState,
    storage: StorageBackend,
    ranks: RankGroup,
    replicas: MemoryReplicas | None,
) -> RestoredState:
    """Loads the newest state, if there is any. A collective. Raises CheckpointError on all ranks alike."""
    if replicas is not None:
        restored = _restore_from_replicas(run, state, storage, ranks, replicas)
        if restored is not None:
            return restored
    with read_newest_good(storage, ranks, report=run.print) as found:
        if found is not None:
            load_checkpoint(run, state, ranks, found)
            mesh = found.manifest.mesh
            other_mesh = "" if mesh == str(run.mesh.degrees) else f", saved on {mesh}"
            run.print(f"resumed after step {found.manifest.step}{other_mesh}")
    if replicas is not None:
        replicas.keep_only(None)
    return RestoredState(None, {}) if found is None else RestoredState(found.manifest.step, found.manifest.facts)


def load_checkpoint(run: CheckpointedRun, state: TrainingState, ranks: RankGroup, found: VerifiedCheckpoint) -> None:
    """Loads tensors and random generators of one checkpoint. A collective."""
    tensors = state.tensors()
    load_state(found, tensors, ranks)
    state.take(tensors)
    same_mesh = found.manifest.mesh == str(run.mesh.degrees)
    name = rank_name(run) if same_mesh else "another mesh"
    restore_generators(found, ranks, name, seed=run.seed, alike=run.dropout_rank)


def rank_name(run: CheckpointedRun) -> str:
    """The coordinates of this rank: its generator states belong to the rank with the same coordinates."""
    here = run.mesh.coordinates
    return f"{here.pp}-{here.dp}-{here.fsdp}-{here.cp}-{here.tp}"


def _restore_from_replicas(
    run: CheckpointedRun, state: TrainingState, storage: StorageBackend, ranks: RankGroup, replicas: MemoryReplicas
) -> RestoredState | None:
    """Loads the newest replica. None if there is none, or if a checkpoint is newer."""
    began = time.monotonic()
    newest, _ = run_on_first(ranks, lambda: newest_complete(storage))
    loaded = replicas.load_newest(state.tensors, least=newest or 1)
    if loaded is None:
        return None
    extra, tensors = loaded
    state.take(tensors)
    replicas.keep_only(run.steps_done)
    seconds = time.monotonic() - began
    run.print(f"resumed after step {run.steps_done}, from in-memory replicas in {seconds:.2f} s")
    return RestoredState(newest, extra["facts"])
