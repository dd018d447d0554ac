"""Loads a checkpoint into a state on any mesh: torch's DCP reads what each rank needs."""

from __future__ import annotations

import io
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any, cast

import torch
from torch.distributed.checkpoint import state_dict_loader
from torch.distributed.checkpoint.filesystem import FileSystem, FileSystemReader

from windlass.train.checkpoint import rng_state
from windlass.train.checkpoint.checkpoint_search import VerifiedCheckpoint
from windlass.train.checkpoint.rank_group import RankGroup, run_on_all, shared_errors
from windlass.train.checkpoint.staging import StateDict, flatten
from windlass.train.checkpoint.state_diff import compare_states, describe
from windlass.train.checkpoint.state_writer import dtype_name
from windlass.train.checkpoint.store.errors import ModelMismatchError
from windlass.train.checkpoint.store.manifest import OBJECT, TensorFact
from windlass.train.checkpoint.store.storage import StorageBackend


def load_state(found: VerifiedCheckpoint, state: StateDict, ranks: RankGroup) -> None:
    """Fill the tensors of `state`, and replace its other values.

    A collective. The state may be split differently from when it was saved, and ranks may hold different parts of it.
    Raises ModelMismatchError, with names, before anything is read.
    """
    _refuse_another_model(found, state, ranks)
    reader = storage_reader(found.storage, found.folder)
    with shared_errors(ranks):
        state_dict_loader.load(state, storage_reader=reader, process_group=ranks.group, no_dist=ranks.size == 1)


def restore_generators(
    found: VerifiedCheckpoint, ranks: RankGroup, rank_name: str = "", *, seed: int, alike: int | None = None
) -> bool:
    """Restore this rank's generators as the rank of the same name saved them; seed them if there was none.

    `alike`: ranks with the same number are seeded equally, as ranks with copies of the same activations must be; with
    None each rank is seeded by itself. A collective. Returns whether saved generators were found.
    """
    name = rng_file_name(rank_name or str(ranks.rank))
    known = name in found.manifest.files

    def set_or_seed() -> None:
        data = found.storage.read(f"{found.folder}/{name}") if known else None
        if data is None:
            rng_state.reseed(seed, ranks.rank if alike is None else alike, found.manifest.step)
        else:
            rng_state.restore(data)

    run_on_all(ranks, set_or_seed)
    return known


def rng_file_name(rank_name: str) -> str:
    """Return the file name of a rank's generators.

    It contains coordinates, because rank numbers change with the mesh.
    """
    return f"rng-{rank_name}.json"


def storage_reader(storage: StorageBackend, folder: str) -> FileSystemReader:
    """Return torch's reader for a checkpoint."""
    reader = FileSystemReader(folder)
    reader.fs = _StorageFileSystem(storage)
    return reader


def _refuse_another_model(found: VerifiedCheckpoint, state: StateDict, ranks: RankGroup) -> None:
    mine = {name: _fact(value) for name, value in flatten(state).items()}
    wanted = {name: fact for part in run_on_all(ranks, lambda: mine) for name, fact in part.items()}
    if other := compare_states(found.manifest.tensors, wanted):
        raise ModelMismatchError(f"{found.storage.location}/{found.folder} belongs to another model\n{describe(other)}")


def _fact(value: Any) -> TensorFact:
    if isinstance(value, torch.Tensor):
        return TensorFact(tuple(value.shape), dtype_name(value.dtype))
    return TensorFact((), OBJECT)


class _StorageFileSystem(FileSystem):
    """torch's filesystem interface over any storage backend."""

    def __init__(self, storage: StorageBackend) -> None:
        self._storage = storage

    def init_path(self, path: str | os.PathLike[str]) -> Any:
        return PurePosixPath(path)

    def concat_path(self, path: str | os.PathLike[str], suffix: str) -> Any:
        return PurePosixPath(path) / suffix

    @contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Generator[io.IOBase]:  # noqa: ARG002
        with self._storage.open(str(path)) as file:
            yield cast(io.IOBase, file)
