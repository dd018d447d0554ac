"""A checkpoint as one file, for programs that know nothing of meshes: safetensors, or what `torch.load` reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.distributed.checkpoint import state_dict_loader

from windlass.train.checkpoint.loading import reader_of
from windlass.train.checkpoint.store.errors import CheckpointError
from windlass.train.checkpoint.store.layout import TORN, folder_of
from windlass.train.checkpoint.store.manifest import OBJECT, Manifest, TensorFact
from windlass.train.checkpoint.store.places import Place
from windlass.train.checkpoint.store.trouble import told

State = dict[str, Any]
SAFETENSORS = ".safetensors"
ENDINGS = (SAFETENSORS, ".pt", ".pth")


class Exported(NamedTuple):
    """What is in the file, and how many values that are no tensors had no place in it."""

    tensors: int
    others: int
    left_out: int
    size: int


def wanted(manifest: Manifest, only: str, ending: str) -> tuple[dict[str, TensorFact], int]:
    """What of a checkpoint goes into a file, by its name there; and how much that is no tensor is left out.

    `only`: what is beneath this name, without it. Raises CheckpointError if there is nothing, or for another ending.
    """
    if ending not in ENDINGS:
        raise CheckpointError(f"a file that ends with {ending or 'nothing'!r}: name one that ends with {_or(ENDINGS)}")
    beneath = f"{only}." if only else ""
    found = {name: fact for name, fact in manifest.tensors.items() if name.startswith(beneath)}
    if not found:
        parts = sorted({name.partition(".")[0] for name in manifest.tensors})
        raise CheckpointError(f"the checkpoint has nothing beneath {only!r}; it has {', '.join(parts)}")
    fits = {name: fact for name, fact in found.items() if ending != SAFETENSORS or fact.dtype != OBJECT}
    return fits, len(found) - len(fits)


def read(place: Place, manifest: Manifest, facts: Mapping[str, TensorFact]) -> State:
    """These tensors, whole, in the memory of this process; and what is no tensor. Raises PlaceError.

    What is no tensor is unpickled: read only checkpoints that you trust.
    """
    state: State = {name: _empty(fact) for name, fact in facts.items()}
    folder = folder_of(manifest.step)
    with told(place.text, f"reading {folder}"):
        state_dict_loader.load(state, storage_reader=reader_of(place, folder), no_dist=True)
    return state


def write(state: State, manifest: Manifest, target: Path, only: str, left_out: int) -> Exported:
    """Write the file, whole or not at all. Raises PlaceError."""
    beneath = f"{only}." if only else ""
    named = {name.removeprefix(beneath): value for name, value in state.items()}
    beside = target.with_name(target.name + TORN)
    with told(str(target), "writing it"):
        try:
            _write(named, manifest, beside, target.suffix)
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)
    tensors = sum(isinstance(value, torch.Tensor) for value in named.values())
    return Exported(tensors, len(named) - tensors, left_out, target.stat().st_size)


def _write(state: State, manifest: Manifest, file: Path, ending: str) -> None:
    save = _as_safetensors(manifest) if ending == SAFETENSORS else torch.save
    with file.open("wb") as opened:
        try:
            save(state, file)
        except Exception as error:  # torch's archives and safetensors put errors of their own before the system's
            raise OSError(str(error).splitlines()[0]) from error
        os.fsync(opened.fileno())


def _as_safetensors(manifest: Manifest) -> Callable[[State, Path], None]:
    from safetensors.torch import save_file  # noqa: PLC0415 - only for this format

    return partial(save_file, metadata={"format": "pt", "step": str(manifest.step)})


def _empty(fact: TensorFact) -> torch.Tensor | None:
    return None if fact.dtype == OBJECT else torch.empty(fact.shape, dtype=getattr(torch, fact.dtype))


def _or(words: tuple[str, ...]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"
