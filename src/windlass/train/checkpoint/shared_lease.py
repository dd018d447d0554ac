"""The writer's lease of a storage as all ranks of a run share it: rank 0 holds it, all ranks know its token."""

from __future__ import annotations

from collections.abc import Callable

from windlass.train.checkpoint.lease_holder import identify_holder
from windlass.train.checkpoint.rank_group import RankGroup, run_on_all, run_on_first
from windlass.train.checkpoint.store.storage import StorageBackend
from windlass.train.checkpoint.store.writer_lease import WriterLease, take_writer_lease


class SharedLease:
    """A lease that `take_lease` has taken. `held`: on rank 0."""

    def __init__(self, ranks: RankGroup, job: str, token: int, held: WriterLease | None) -> None:
        self.job = job
        """Id of the job that holds the lease."""
        self.token = token
        """Fencing token, which is part of the names of checkpoints."""
        self._ranks, self._held = ranks, held

    def check(self) -> None:
        """Raise LeaseLostError if another run has taken the lease. On rank 0; other ranks do nothing."""
        if self._held is not None:
            self._held.check()

    def advance(self) -> None:
        """Take the next token for the checkpoints from now on. A collective."""
        self.token = run_on_first(self._ranks, self._advance)

    def release(self) -> None:
        """End the lease, so that the next run need not wait. Not a collective."""
        if self._held is not None:
            self._held.release()

    def abandon(self) -> None:
        """Leave the lease to the next start of this run, which takes it at once. Not a collective."""
        if self._held is not None:
            self._held.abandon()

    def _advance(self) -> int:
        assert self._held is not None  # noqa: S101 - on rank 0 alone
        self._held.advance()
        return self._held.token


def take_lease(
    storage: StorageBackend, ranks: RankGroup, *, report: Callable[[str], None] = print, job: str = ""
) -> SharedLease:
    """Take the lease under which the ranks of this run write to a storage, before anything is loaded. A collective.

    `job`: the id of the run where variables name none; that of any rank counts, so that survivors of lost ranks keep
    it. Raises LeaseHeldError on all ranks alike if another run uses the storage.
    """
    known = next(filter(None, run_on_all(ranks, lambda: job)), "")
    held: list[WriterLease] = []

    def take() -> tuple[str, int]:
        me = identify_holder(job=known)
        held.append(take_writer_lease(storage, me, report))
        return me.job, held[0].token

    job, token = run_on_first(ranks, take)
    return SharedLease(ranks, job, token, held[0] if held else None)
