"""Leases of readers: a checkpoint that an export, a verification or an evaluation reads is not removed meanwhile.

A reader creates its lease, and then looks for the mark of a removal. A remover sets its mark, and then looks for leases
of readers. Whatever the order, at least one of the two sees the other.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from windlass.train.checkpoint.store import lease
from windlass.train.checkpoint.store.errors import CheckpointError, StorageError
from windlass.train.checkpoint.store.layout import CONTROL, reader_file, reader_files, removal_mark, removal_marks
from windlass.train.checkpoint.store.lease import Holder, LeaseObserver, LeaseRecord, LeaseVerdict
from windlass.train.checkpoint.store.lease_renewal import LeaseRenewal
from windlass.train.checkpoint.store.process_identity import holder_of_process, process_life
from windlass.train.checkpoint.store.storage import StorageBackend

Report = Callable[[str], None]


@contextmanager
def hold_for_reading(storage: StorageBackend, folder: str, report: Report) -> Iterator[bool]:
    """Hold a reader's lease of one checkpoint. Yields False if the checkpoint is being removed.

    Where the storage cannot be written, a warning is reported and the checkpoint is read without a lease.
    """
    name, record = reader_file(folder, uuid.uuid4().hex), LeaseRecord(holder_of_process(), duration_s=lease.DURATION_S)
    try:
        storage.create(name, record.to_json())
    except StorageError as error:
        reason = str(error).splitlines()[0]
        report(f"warning: {folder} is read without a lease, and may be removed meanwhile: {reason}")
        yield True
        return
    renewal = _renew(storage, name, record)
    try:
        yield removal_mark(folder) not in removal_marks(storage.sizes(CONTROL))
    finally:
        renewal.stop()
        with contextlib.suppress(CheckpointError):
            storage.remove(name)


class CheckpointRemover:
    """Removes checkpoints that no process reads. It remembers what it has seen of leases, so that dead ones expire."""

    def __init__(self, storage: StorageBackend, now: Callable[[], float] = time.monotonic) -> None:
        self._storage, self._now = storage, now
        self._observer = LeaseObserver()
        self.reader: Holder | None = None
        """The reader because of which the last `remove` has left a checkpoint."""

    def remove(self, folder: str) -> LeaseVerdict:
        """Remove a checkpoint; returns FREE, or HELD or UNDECIDED if it stays because of a reader."""
        verdict = self._judge_readers(folder)
        if verdict is not LeaseVerdict.FREE:
            return verdict
        with self._mark_removal(folder):
            verdict = self._judge_readers(folder)
            if verdict is LeaseVerdict.FREE:
                self._storage.remove(folder)
        return verdict

    def remove_stale_marks(self) -> None:
        """Remove the marks of removals that were killed: those of another machine once they have expired."""
        for mark in removal_marks(self._storage.sizes(CONTROL)):
            self._judge(mark)

    @contextmanager
    def _mark_removal(self, folder: str) -> Iterator[None]:
        """Hold the mark of a removal, a lease as well. A mark of another process for this checkpoint stays its own."""
        mark, record = removal_mark(folder), LeaseRecord(holder_of_process(), duration_s=lease.DURATION_S)
        is_mine = False
        with contextlib.suppress(StorageError):  # on a full disk removing is the remedy
            is_mine = self._storage.create(mark, record.to_json())
        if not is_mine:
            yield
            return
        renewal = _renew(self._storage, mark, record)
        try:
            yield
        finally:
            renewal.stop()
            self._storage.remove(mark)

    def _judge_readers(self, folder: str) -> LeaseVerdict:
        verdicts = {LeaseVerdict.FREE}
        for name in reader_files(self._storage.sizes(CONTROL), folder):
            verdict, holder = self._judge(name)
            verdicts.add(verdict)
            if verdict is not LeaseVerdict.FREE:
                self.reader = holder
        return next(each for each in (LeaseVerdict.HELD, LeaseVerdict.UNDECIDED, LeaseVerdict.FREE) if each in verdicts)

    def _judge(self, name: str) -> tuple[LeaseVerdict, Holder]:
        """Judge the lease of a reader or a remover, and remove it if it is free."""
        data = self._storage.read(name)
        if data is None:
            return LeaseVerdict.FREE, lease.UNKNOWN_HOLDER
        record = lease.parse_record(data)
        seen = self._observer.observe(name, data, self._now())
        verdict = lease.judge_lease(record, lease.UNKNOWN_HOLDER, process_life(record.holder.process), seen)
        if verdict is LeaseVerdict.FREE:
            self._storage.remove(name)
        return verdict, record.holder


def _renew(storage: StorageBackend, name: str, record: LeaseRecord) -> LeaseRenewal:
    renewals = 0

    def renew() -> None:
        nonlocal renewals
        renewals += 1
        storage.write(name, replace(record, renewals=renewals).to_json())

    return LeaseRenewal(renew, record.duration_s)
