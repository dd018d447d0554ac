"""Decides which checkpoints are kept. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from windlass.train.checkpoint.store.errors import OptionError


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


def steps_to_keep(steps: Collection[int], retention: Retention) -> set[int]:
    """Return the steps that stay. The newest is always among them."""
    ordered = sorted(steps)
    return {*ordered[-retention.keep :], *_milestones(ordered, retention.every)}


def steps_to_prune(steps: Collection[int], retention: Retention) -> list[int]:
    """Return the steps to remove, oldest first."""
    return sorted(set(steps) - steps_to_keep(steps, retention))


def _milestones(ordered: list[int], every: int | None) -> set[int]:
    """Return the first step of each stretch of `every`: the same ones on every call."""
    first: dict[int, int] = {}
    for step in ordered if every else ():
        first.setdefault(step // (every or 1), step)
    return set(first.values())
