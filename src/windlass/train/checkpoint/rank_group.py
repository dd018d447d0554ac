"""Runs work on all ranks, and raises the errors of any rank on all of them, so that no rank continues alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple, TypeVar, cast

import torch.distributed as dist
import torch.distributed.distributed_c10d
from torch.distributed.checkpoint.api import CheckpointException

from windlass.train.checkpoint.store.errors import CheckpointError, RankGoneError

_SLOWEST_WORK = timedelta(days=1)
"""Timeout of a collective in which the other ranks wait for the slowest: an upload of a large model may take hours.

A rank that is killed closes its connections, which ends the wait at once. One that is silent is found by its agent, and
without an agent by the collectives of the steps.
"""
T = TypeVar("T")


class _Failure(NamedTuple):
    """The error of one rank, as it is sent to the others."""

    kind: type[CheckpointError]
    text: str


@dataclass(frozen=True, slots=True)
class RankGroup:
    """The ranks that save and load together. One rank without a process group is a group of its own."""

    group: dist.ProcessGroup | None
    rank: int
    size: int

    @property
    def is_first(self) -> bool:
        """Whether this rank accesses the storage on behalf of all."""
        return self.rank == 0


def new_rank_group() -> RankGroup:
    """Create a gloo group of all ranks of this job. A collective: all ranks call it in the same order."""
    if not dist.is_initialized():
        return RankGroup(None, 0, 1)
    group = dist.new_group(backend="gloo")  # with torch's timeout, for ranks that do not come
    assert isinstance(group, dist.ProcessGroup)  # noqa: S101 - this rank is in it
    torch.distributed.distributed_c10d._set_pg_timeout(_SLOWEST_WORK, group)  # noqa: SLF001 - has no public name
    return RankGroup(group, dist.get_rank(), dist.get_world_size())


def run_on_all(ranks: RankGroup, work: Callable[[], T]) -> list[T]:
    """Return the results of all ranks, in order. Raises the same error on all of them if one failed."""
    mine: T | _Failure
    try:
        mine = work()
    except CheckpointError as error:
        mine = _Failure(type(error), str(error))
    except Exception as error:  # noqa: BLE001 - the other ranks must not wait for this one
        mine = _Failure(CheckpointError, f"{type(error).__name__}: {error}")
    return _raise_if_failed(ranks, _gather(ranks, mine))


def run_on_first(ranks: RankGroup, work: Callable[[], T]) -> T:
    """Run on rank 0 and return its result on all ranks. Raises as `run_on_all`."""
    return cast(T, run_on_all(ranks, lambda: work() if ranks.is_first else None)[0])


@contextmanager
def shared_errors(ranks: RankGroup) -> Iterator[None]:
    """Translate the errors of torch's DCP, which are equal on all ranks."""
    try:
        yield
    except CheckpointException as error:
        failures = {
            rank: _Failure(CheckpointError, f"{type(e).__name__}: {e}") for rank, (e, _) in error.failures.items()
        }
        raise _combined_error(ranks, failures) from error
    except RuntimeError as error:
        raise _rank_gone(error) from error


def _gather(ranks: RankGroup, mine: T) -> list[T]:
    if ranks.size == 1:
        return [mine]
    gathered: list[T | None] = [None] * ranks.size
    try:
        dist.all_gather_object(gathered, mine, group=ranks.group)
    except RuntimeError as error:
        raise _rank_gone(error) from error
    return cast(list[T], gathered)


def _rank_gone(error: RuntimeError) -> RankGoneError:
    """Return the error for a failed collective, whose only cause is a lost rank."""
    return RankGoneError(f"another rank is gone: {str(error).splitlines()[0]}")


def _raise_if_failed(ranks: RankGroup, outcomes: list[T | _Failure]) -> list[T]:
    failed = {rank: outcome for rank, outcome in enumerate(outcomes) if isinstance(outcome, _Failure)}
    if failed:
        raise _combined_error(ranks, failed)
    return cast(list[T], outcomes)


def _combined_error(ranks: RankGroup, failed: dict[int, _Failure]) -> CheckpointError:
    """Return the error of the first failed rank, with the number of others."""
    first, failure = min(failed.items())
    if ranks.size == 1:
        return failure.kind(failure.text)
    others = len(failed) - 1
    who = f"rank {first}" + (f" and {others} more" if others else "")
    return failure.kind(f"{who}: {failure.text}")
