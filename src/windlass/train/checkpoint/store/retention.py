"""Decides which checkpoints are kept. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from windlass.train.checkpoint.store.errors import OptionError
from windlass.train.checkpoint.store.layout import CheckpointKey


@dataclass(frozen=True, slots=True)
class Retention:
    """Keep the newest `keep` checkpoints, and permanently one of every `every` steps."""

    keep: int = 3
    every: int | None = None
    """A step is permanent when it is the first at or after a multiple of this. None: none is."""

    def __post_init__(self) -> None:
        if self.keep < 1:
            raise OptionError(f"keep={self.keep} would remove the only checkpoint: keep at least 1")
        if self.every is not None and self.every < 1:
            raise OptionError(f"keep one of every {self.every} steps: the number of steps must be positive, as 1000")


def keys_to_keep(keys: Collection[CheckpointKey], retention: Retention) -> set[CheckpointKey]:
    """Return the checkpoints that stay. The newest is always among them; of one step, the newest alone."""
    newest_of_step = {key.step: key for key in sorted(keys)}
    ordered = sorted(newest_of_step.values())
    milestones = {newest_of_step[step] for step in _milestones(sorted(newest_of_step), retention.every)}
    return {*ordered[-retention.keep :], *milestones}


def keys_to_prune(keys: Collection[CheckpointKey], retention: Retention) -> list[CheckpointKey]:
    """Return the checkpoints to remove, oldest first."""
    return sorted(set(keys) - keys_to_keep(keys, retention))


def _milestones(ordered: list[int], every: int | None) -> set[int]:
    """Return the first step of each stretch of `every`: the same ones on every call."""
    first: dict[int, int] = {}
    for step in ordered if every else ():
        first.setdefault(step // (every or 1), step)
    return set(first.values())
