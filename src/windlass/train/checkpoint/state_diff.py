"""Compares names and shapes of a checkpoint's tensors with a model, before anything is read. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from windlass.train.checkpoint.store.manifest import OBJECT, TensorFact

_MAX_NAMES = 10
Tensors = Mapping[str, TensorFact]


class StateDifference(NamedTuple):
    """Names in one only, and names in both with (saved shape, wanted shape)."""

    missing: tuple[str, ...]
    """Names that are wanted and not saved."""
    unexpected: tuple[str, ...]
    """Names that are saved and not wanted."""
    reshaped: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...]

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected or self.reshaped)


def compare_states(saved: Tensors, wanted: Tensors) -> StateDifference:
    """Return the differences that keep `saved` from being loaded as `wanted`."""
    shared = sorted(saved.keys() & wanted.keys())
    return StateDifference(
        tuple(sorted(wanted.keys() - saved.keys())),
        tuple(sorted(saved.keys() - wanted.keys())),
        tuple((name, saved[name].shape, wanted[name].shape) for name in shared if _differ(saved[name], wanted[name])),
    )


def describe(found: StateDifference) -> str:
    """Describe the differences, with the first names of each kind."""
    reshaped = [f"{name} {list(saved)} → {list(wanted)}" for name, saved, wanted in found.reshaped]
    kinds = (
        ("the model has and the checkpoint lacks", found.missing),
        ("the checkpoint has and the model lacks", found.unexpected),
        ("have another shape (saved → wanted)", reshaped),
    )
    return "\n".join(f"{len(names)} {what}: {_format_names(names)}" for what, names in kinds if names)


def _format_names(names: tuple[str, ...] | list[str]) -> str:
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more


def _differ(saved: TensorFact, wanted: TensorFact) -> bool:
    return saved.shape != wanted.shape or (saved.dtype == OBJECT) != (wanted.dtype == OBJECT)
