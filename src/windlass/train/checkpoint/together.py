"""Work that all ranks do at once, and whose errors all of them hear of: nobody goes on alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple, TypeVar, cast

import torch.distributed as dist
from torch.distributed.checkpoint.api import CheckpointException

from windlass.train.checkpoint.store.errors import CheckpointError, RankGoneError

T = TypeVar("T")


class _Failure(NamedTuple):
    kind: type[CheckpointError]
    text: str


@dataclass(frozen=True, slots=True)
class Ranks:
    """Who saves and loads together. One rank without a process group is a group of its own."""

    group: dist.ProcessGroup | None
    rank: int
    size: int

    @property
    def first(self) -> bool:
        """The one that speaks to the place on behalf of all."""
        return self.rank == 0


def all_ranks(timeout: timedelta | None = None) -> Ranks:
    """Every rank of this job, on a gloo group of their own. A collective: all have to call it, in the same order."""
    if not dist.is_initialized():
        return Ranks(None, 0, 1)
    return Ranks(dist.new_group(backend="gloo", timeout=timeout), dist.get_rank(), dist.get_world_size())


def together(ranks: Ranks, work: Callable[[], T]) -> list[T]:
    """What came of it on each rank, in their order. Raises the same error on all of them if one of them failed."""
    mine: T | _Failure
    try:
        mine = work()
    except CheckpointError as error:
        mine = _Failure(type(error), str(error))
    except Exception as error:  # noqa: BLE001 - whatever it is, the others must not wait for this rank
        mine = _Failure(CheckpointError, f"{type(error).__name__}: {error}")
    return _unless_failed(ranks, _gathered(ranks, mine))


def by_first(ranks: Ranks, work: Callable[[], T]) -> T:
    """Done by rank 0; all learn what came of it. Raises as `together`."""
    return cast(T, together(ranks, lambda: work() if ranks.first else None)[0])


@contextmanager
def hearing(ranks: Ranks) -> Iterator[None]:
    """What torch's DCP raises inside, on all ranks alike, as an error of ours."""
    try:
        yield
    except CheckpointException as error:
        told = {rank: _Failure(CheckpointError, f"{type(e).__name__}: {e}") for rank, (e, _) in error.failures.items()}
        raise _told(ranks, told) from error
    except RuntimeError as error:
        raise _gone(error) from error


def _gathered(ranks: Ranks, mine: T) -> list[T]:
    if ranks.size == 1:
        return [mine]
    gathered: list[T | None] = [None] * ranks.size
    try:
        dist.all_gather_object(gathered, mine, group=ranks.group)
    except RuntimeError as error:
        raise _gone(error) from error
    return cast(list[T], gathered)


def _gone(error: RuntimeError) -> RankGoneError:
    """A collective has failed: its own errors come from nowhere else."""
    return RankGoneError(f"another rank is gone: {str(error).splitlines()[0]}")


def _unless_failed(ranks: Ranks, outcomes: list[T | _Failure]) -> list[T]:
    failed = {rank: outcome for rank, outcome in enumerate(outcomes) if isinstance(outcome, _Failure)}
    if failed:
        raise _told(ranks, failed)
    return cast(list[T], outcomes)


def _told(ranks: Ranks, failed: dict[int, _Failure]) -> CheckpointError:
    """The first one's words, and who else has trouble."""
    first, failure = min(failed.items())
    if ranks.size == 1:
        return failure.kind(failure.text)
    others = len(failed) - 1
    who = f"rank {first}" + (f" and {others} more" if others else "")
    return failure.kind(f"{who}: {failure.text}")
