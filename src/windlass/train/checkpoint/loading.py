"""Loading a checkpoint into a state of any mesh: torch's DCP reads what each rank needs."""

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

from windlass.train.checkpoint import rng
from windlass.train.checkpoint.comparing import described, difference
from windlass.train.checkpoint.finding import Found
from windlass.train.checkpoint.staging import State, flattened
from windlass.train.checkpoint.store.errors import OtherModelError
from windlass.train.checkpoint.store.manifest import OBJECT, TensorFact
from windlass.train.checkpoint.store.places import Place
from windlass.train.checkpoint.together import Ranks, hearing, together
from windlass.train.checkpoint.writing import dtype_name


def load(found: Found, state: State, ranks: Ranks) -> None:
    """Fill the tensors of `state`, and replace what is no tensor.

    A collective. The state may be cut otherwise than when it was saved, and ranks may hold different parts of it.
    Raises OtherModelError, with names, before anything is read.
    """
    _refuse_another_model(found, state, ranks)
    reader = reader_of(found.place, found.folder)
    with hearing(ranks):
        state_dict_loader.load(state, storage_reader=reader, process_group=ranks.group, no_dist=ranks.size == 1)


def restore_generators(found: Found, ranks: Ranks, who: str = "", *, seed: int, alike: int | None = None) -> bool:
    """Set this rank's generators as they were when a rank of the same name saved; seed them if there was none.

    `alike`: ranks of the same number are seeded alike, as those must be that hold copies of the same activations; each
    by itself if it is None. A collective. Returns whether there was one.
    """
    name = rng_file(who or str(ranks.rank))
    known = name in found.manifest.files

    def set_or_seed() -> None:
        data = found.place.read(f"{found.folder}/{name}") if known else None
        if data is None:
            rng.seed_anew(seed, ranks.rank if alike is None else alike, found.manifest.step)
        else:
            rng.restore(data)

    together(ranks, set_or_seed)
    return known


def rng_file(who: str) -> str:
    """Where the generators of a rank are: by its coordinates, for numbers change with the mesh."""
    return f"rng-{who}.json"


def reader_of(place: Place, folder: str) -> FileSystemReader:
    """What torch reads a checkpoint with."""
    reader = FileSystemReader(folder)
    reader.fs = _Reading(place)
    return reader


def _refuse_another_model(found: Found, state: State, ranks: Ranks) -> None:
    mine = {name: _fact(value) for name, value in flattened(state).items()}
    wanted = {name: fact for part in together(ranks, lambda: mine) for name, fact in part.items()}
    if other := difference(found.manifest.tensors, wanted):
        raise OtherModelError(f"{found.place.text}/{found.folder} is of another model\n{described(other)}")


def _fact(value: Any) -> TensorFact:
    if isinstance(value, torch.Tensor):
        return TensorFact(tuple(value.shape), dtype_name(value.dtype))
    return TensorFact((), OBJECT)


class _Reading(FileSystem):
    """torch's word for a filesystem, over any place."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def init_path(self, path: str | os.PathLike[str]) -> Any:
        return PurePosixPath(path)

    def concat_path(self, path: str | os.PathLike[str], suffix: str) -> Any:
        return PurePosixPath(path) / suffix

    @contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Generator[io.IOBase]:  # noqa: ARG002
        with self._place.open(str(path)) as file:
            yield cast(io.IOBase, file)
