"""Exports a checkpoint as one file, for programs without a mesh: safetensors, or a file for `torch.load`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.distributed.checkpoint import state_dict_loader

from windlass.train.checkpoint.state_loader import storage_reader
from windlass.train.checkpoint.store.errors import CheckpointError
from windlass.train.checkpoint.store.layout import INCOMPLETE_SUFFIX
from windlass.train.checkpoint.store.manifest import OBJECT, Manifest, TensorFact
from windlass.train.checkpoint.store.storage import StorageBackend
from windlass.train.checkpoint.store.storage_errors import translate_errors

StateDict = dict[str, Any]
SAFETENSORS = ".safetensors"
SUFFIXES = (SAFETENSORS, ".pt", ".pth")


class ExportSummary(NamedTuple):
    """Counts of the exported file, and of values other than tensors that its format cannot hold."""

    tensors: int
    others: int
    left_out: int
    size: int


def select_tensors(manifest: Manifest, only: str, ending: str) -> tuple[dict[str, TensorFact], int]:
    """Return the parts of a checkpoint to export, by name; and the number of other values that are left out.

    `only`: the prefix to export, removed from the names. Raises CheckpointError if nothing matches, or for another
    suffix.
    """
    if ending not in SUFFIXES:
        raise CheckpointError(f"the file suffix {ending or 'nothing'!r} is not supported: use {_join_or(SUFFIXES)}")
    beneath = f"{only}." if only else ""
    found = {name: fact for name, fact in manifest.tensors.items() if name.startswith(beneath)}
    if not found:
        parts = sorted({name.partition(".")[0] for name in manifest.tensors})
        raise CheckpointError(f"the checkpoint has no values under {only!r}; it has {', '.join(parts)}")
    fits = {name: fact for name, fact in found.items() if ending != SAFETENSORS or fact.dtype != OBJECT}
    return fits, len(found) - len(fits)


def read_state(storage: StorageBackend, folder: str, facts: Mapping[str, TensorFact]) -> StateDict:
    """Read whole tensors and other values into the memory of this process. Raises StorageError.

    Other values are unpickled: read only trusted checkpoints.
    """
    state: StateDict = {name: _empty(fact) for name, fact in facts.items()}
    with translate_errors(storage.location, f"reading {folder}"):
        state_dict_loader.load(state, storage_reader=storage_reader(storage, folder), no_dist=True)
    return state


def write_export(state: StateDict, manifest: Manifest, target: Path, only: str, left_out: int) -> ExportSummary:
    """Write the file, whole or not at all. Raises StorageError."""
    beneath = f"{only}." if only else ""
    named = {name.removeprefix(beneath): value for name, value in state.items()}
    beside = target.with_name(target.name + INCOMPLETE_SUFFIX)
    with translate_errors(str(target), "writing it"):
        try:
            _write(named, manifest, beside, target.suffix)
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)
    tensors = sum(isinstance(value, torch.Tensor) for value in named.values())
    return ExportSummary(tensors, len(named) - tensors, left_out, target.stat().st_size)


def _write(state: StateDict, manifest: Manifest, file: Path, ending: str) -> None:
    save = _as_safetensors(manifest) if ending == SAFETENSORS else torch.save
    with file.open("wb") as opened:
        try:
            save(state, file)
        except Exception as error:  # torch's archives and safetensors wrap the system's error
            raise OSError(str(error).splitlines()[0]) from error
        os.fsync(opened.fileno())


def _as_safetensors(manifest: Manifest) -> Callable[[StateDict, Path], None]:
    from safetensors.torch import save_file  # noqa: PLC0415 - only for this format

    return partial(save_file, metadata={"format": "pt", "step": str(manifest.step)})


def _empty(fact: TensorFact) -> torch.Tensor | None:
    return None if fact.dtype == OBJECT else torch.empty(fact.shape, dtype=getattr(torch, fact.dtype))


def _join_or(words: tuple[str, ...]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"
