"""Whether a checkpoint is of this model: names and shapes of tensors, before anything is read. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from windlass.train.checkpoint.store.manifest import OBJECT, TensorFact

_SHOWN = 10
Tensors = Mapping[str, TensorFact]


class Difference(NamedTuple):
    """Names that are in one only, and those in both with (shape saved, shape wanted)."""

    missing: tuple[str, ...]
    """Wanted, not saved."""
    unexpected: tuple[str, ...]
    """Saved, not wanted."""
    reshaped: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...]

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected or self.reshaped)


def difference(saved: Tensors, wanted: Tensors) -> Difference:
    """What keeps `saved` from being loaded as `wanted`."""
    shared = sorted(saved.keys() & wanted.keys())
    return Difference(
        tuple(sorted(wanted.keys() - saved.keys())),
        tuple(sorted(saved.keys() - wanted.keys())),
        tuple((name, saved[name].shape, wanted[name].shape) for name in shared if _differ(saved[name], wanted[name])),
    )


def described(found: Difference) -> str:
    """In words, with the first names of each kind."""
    reshaped = [f"{name} {list(saved)} → {list(wanted)}" for name, saved, wanted in found.reshaped]
    kinds = (
        ("the model has and the checkpoint lacks", found.missing),
        ("the checkpoint has and the model lacks", found.unexpected),
        ("have another shape (saved → wanted)", reshaped),
    )
    return "\n".join(f"{len(names)} {what}: {_first(names)}" for what, names in kinds if names)


def _first(names: tuple[str, ...] | list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _differ(saved: TensorFact, wanted: TensorFact) -> bool:
    return saved.shape != wanted.shape or (saved.dtype == OBJECT) != (wanted.dtype == OBJECT)
