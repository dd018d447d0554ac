"""The candidates for preemption as arrays, one entry for each of V candidates, to select many of them at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from windlass.core.model.gang import PendingGang, RunningGang
from windlass.core.model.snapshot import Grant
from windlass.core.nodes.node_filters import Mask


class CandidateArrays:
    """Queue, priority, elasticity and nodes of candidates, in their order. Each array is computed when it is needed."""

    def __init__(self, candidates: Sequence[RunningGang], grants: Mapping[str, Grant]) -> None:
        self._candidates, self._grants = candidates, grants

    def possible_victims(self, gang: PendingGang, root: Callable[[str], str]) -> Mask:
        """Returns bool[V]: in the tree of the gang's queue, and possibly a victim by queue and priority.

        That is: of lower priority, or elastic and of at most equal priority, or of another queue, which may have
        borrowed. `root`: the root of a queue's tree.
        """
        own_root = root(gang.queue)
        same_tree = np.array([root(queue) == own_root for queue in self._queues], dtype=np.bool_)
        other = np.array([queue != gang.queue for queue in self._queues], dtype=np.bool_)
        lower = self._priorities < gang.priority
        level = self._elastic & (self._priorities <= gang.priority)
        possible: Mask = same_tree[self._queue_of] & (lower | level | other[self._queue_of])
        return possible

    def holders(self, mask: Mask) -> Mask:
        """Returns bool[V]: candidates that hold something on these nodes (bool[N])."""
        rows, starts = self._rows
        touched = np.zeros(len(self._candidates), dtype=np.bool_)
        held = np.flatnonzero(np.diff(starts, append=len(rows)))
        if len(held):
            touched[held] = np.logical_or.reduceat(mask[rows], starts[held])
        return touched

    @cached_property
    def _rows(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows of all candidates, concatenated, and the start of each candidate's rows."""
        grants = [self._grants[run.id] for run in self._candidates]
        lengths = np.array([len(grant.rows) for grant in grants], dtype=np.intp)
        starts = np.concatenate(([0], lengths.cumsum()[:-1])).astype(np.intp)
        return np.concatenate([grant.rows for grant in grants]), starts

    @cached_property
    def _queues(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(run.queue for run in self._candidates))

    @cached_property
    def _queue_of(self) -> NDArray[np.intp]:
        number = {queue: place for place, queue in enumerate(self._queues)}
        return np.array([number[run.queue] for run in self._candidates], dtype=np.intp)

    @cached_property
    def _priorities(self) -> NDArray[np.int64]:
        return np.array([run.priority for run in self._candidates], dtype=np.int64)

    @cached_property
    def _elastic(self) -> Mask:
        return np.array([any(d.min_count for d in run.demands) for run in self._candidates], dtype=np.bool_)
