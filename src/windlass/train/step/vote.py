"""What all ranks agree on at each step: one small all-reduce of the worst that any of them has to say."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields, replace

import torch
import torch.distributed as dist

_FOREVER = 2**62
"""Milliseconds."""


@dataclass(frozen=True, slots=True)
class Said:
    """One rank's, or when all have been heard everybody's. Plain numbers, so that the greatest is the worst."""

    stop: bool = False
    """Somebody has been asked to leave: save, and leave together."""
    save: bool = False
    """A checkpoint is due."""
    not_finite: bool = False
    """A loss or a gradient is NaN or infinite."""
    time_left: int = _FOREVER
    """Milliseconds until somebody is killed."""
    save_takes: int = 0
    """Milliseconds that a save took the last time, 0 if there was none."""

    @property
    def can_save(self) -> bool:
        """Whether a save can be done before somebody is killed."""
        return self.save_takes <= self.time_left


class Vote:
    """Begun when a rank knows what it has to say, ended when the answer is needed: between them other work goes on."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        self._group = group
        self._words = torch.zeros(len(fields(Said)), dtype=torch.int64)
        self._under_way: dist.Work | None = None

    def begin(self, mine: Said) -> None:
        """A collective over the group, not waited for."""
        said = [int(each) for each in astuple(replace(mine, time_left=-mine.time_left))]
        self._words = torch.tensor(said, dtype=torch.int64)
        self._under_way = dist.all_reduce(self._words, dist.ReduceOp.MAX, group=self._group, async_op=True)

    def end(self) -> Said:
        """What the ranks say together. Raises RuntimeError if one of them is gone."""
        assert self._under_way is not None, "begin comes first"  # noqa: S101
        self._under_way.wait()
        self._under_way = None
        stop, save, not_finite, left, takes = self._words.tolist()
        return Said(bool(stop), bool(save), bool(not_finite), -left, takes)
