"""What all ranks agree on at each step: one small all-reduce of the worst that any of them has to say."""

from __future__ import annotations

import struct
from dataclasses import astuple, dataclass, fields, replace

import torch
import torch.distributed as dist

_NOTHING = -(2**63)
"""Less than the bits of any number that a loss is."""
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

    def __init__(self, group: dist.ProcessGroup, *, hears_losses: bool = False) -> None:
        """`hears_losses`: every rank's share of the loss goes along, in a word of its own that nobody else fills."""
        self._group = group
        self._rank, self._ranks = dist.get_rank(group), dist.get_world_size(group) if hears_losses else 0
        self._words = torch.zeros(len(fields(Said)), dtype=torch.int64)
        self.shares: list[float] = []
        """Of the loss, by rank, as all have heard them."""
        self._under_way: dist.Work | None = None

    def begin(self, mine: Said, share: float = 0.0) -> None:
        """A collective over the group, not waited for. `share`: this rank's of the loss."""
        said = [int(each) for each in astuple(replace(mine, time_left=-mine.time_left))]
        said += [_bits(share) if rank == self._rank else _NOTHING for rank in range(self._ranks)]
        self._words = torch.tensor(said, dtype=torch.int64)
        self._under_way = dist.all_reduce(self._words, dist.ReduceOp.MAX, group=self._group, async_op=True)

    def end(self) -> Said:
        """What the ranks say together. Raises RuntimeError if one of them is gone."""
        assert self._under_way is not None, "begin comes first"  # noqa: S101
        self._under_way.wait()
        self._under_way = None
        words = self._words.tolist()
        stop, save, not_finite, left, takes = words[: len(fields(Said))]
        self.shares = [_number(word) for word in words[len(fields(Said)) :]]
        return Said(bool(stop), bool(save), bool(not_finite), -left, takes)


def _bits(number: float) -> int:
    """As an integer, of which the greatest of one and nothing is itself."""
    return int(struct.unpack("<q", struct.pack("<d", number or 0.0))[0])


def _number(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<q", bits))[0])
