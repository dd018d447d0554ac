"""The control all-reduce of each step: all ranks learn the worst report of any rank.

It computes a maximum over a few integers, so only latency matters. gloo's all-reduce uses a ring of 2 (n - 1)
sequential messages; this one needs log2 n rounds, rounded up, as in a dissemination barrier (Hensgen, Finkel, Manber
1988). A value that arrives twice does not change a maximum.
"""

from __future__ import annotations

import struct
from dataclasses import astuple, dataclass, fields, replace
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

_NO_LOSS = -(2**63)
"""An integer below the bits of any loss."""
_NO_DEADLINE_MS = 2**62
"""Milliseconds that stand for no deadline."""
_TAG = 7919
"""Message tag of the consensus, among other messages of the group."""


@dataclass(frozen=True, slots=True)
class StepReport:
    """The report of one rank, or the maximum over all ranks. All fields are numbers, and the greatest is the worst."""

    stop: bool = False
    """A rank has been asked to stop: save, and exit together."""
    save: bool = False
    """A checkpoint is due."""
    not_finite: bool = False
    """A loss or a gradient is NaN or infinite."""
    time_left_ms: int = _NO_DEADLINE_MS
    """Milliseconds until a rank is killed."""
    save_duration_ms: int = 0
    """Milliseconds that the last save took, 0 if there was none."""

    @property
    def can_save(self) -> bool:
        """Whether a save can complete before a rank is killed."""
        return self.save_duration_ms <= self.time_left_ms


class StepConsensus:
    """A non-blocking control all-reduce: `begin` sends the first message, `end` returns the result."""

    def __init__(self, group: dist.ProcessGroup, *, gathers_losses: bool = False) -> None:
        """`gathers_losses`: each rank also sends its share of the loss, in an element that no other rank fills."""
        self._group = group
        self._rank, self._size = dist.get_rank(group), dist.get_world_size(group)
        self._ranks = self._size if gathers_losses else 0
        self._values = torch.zeros(len(fields(StepReport)), dtype=torch.int64)
        self.shares: list[float] = []
        """Shares of the loss, by rank."""
        self._under_way: list[_Exchange] | None = None

    def begin(self, mine: StepReport, share: float = 0.0) -> None:
        """Start the all-reduce of `mine`. A collective that does not wait. `share`: this rank's share of the loss."""
        values = [int(each) for each in astuple(replace(mine, time_left_ms=-mine.time_left_ms))]
        values += [_float_to_bits(share) if rank == self._rank else _NO_LOSS for rank in range(self._ranks)]
        self._values = torch.tensor(values, dtype=torch.int64)
        self._under_way = [self._exchange(1)] if self._size > 1 else []

    def end(self) -> StepReport:
        """Return the maximum over all ranks. Raises RuntimeError if a rank is gone."""
        assert self._under_way is not None, "begin comes first"  # noqa: S101
        exchanges, self._under_way = self._under_way, None
        distance = 1
        while distance < self._size:
            exchange = exchanges[-1]
            exchange.received.wait()
            self._values = torch.maximum(self._values, exchange.theirs)
            distance *= 2
            if distance < self._size:
                exchanges.append(self._exchange(distance))
        for exchange in exchanges:
            exchange.sent.wait()
        values = self._values.tolist()
        stop, save, not_finite, left, takes = values[: len(fields(StepReport))]
        self.shares = [_bits_to_float(word) for word in values[len(fields(StepReport)) :]]
        return StepReport(bool(stop), bool(save), bool(not_finite), -left, takes)

    def _exchange(self, distance: int) -> _Exchange:
        """Exchange the known maximum with the ranks at this distance: send forward, receive from behind."""
        theirs, size = torch.empty_like(self._values), self._size
        received = dist.irecv(theirs, group=self._group, group_src=(self._rank - distance) % size, tag=_TAG)
        sent = dist.isend(self._values, group=self._group, group_dst=(self._rank + distance) % size, tag=_TAG)
        assert sent is not None and received is not None, "this rank is one of the group"  # noqa: S101, PT018
        return _Exchange(theirs, received, sent)


class _Exchange(NamedTuple):
    """One message in each direction."""

    theirs: Tensor
    received: dist.Work
    sent: dist.Work


def _float_to_bits(number: float) -> int:
    """Return the bits of a float as an integer, so that the maximum of it and `_NO_LOSS` is itself."""
    return int(struct.unpack("<q", struct.pack("<d", number or 0.0))[0])


def _bits_to_float(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<q", bits))[0])
