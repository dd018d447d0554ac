"""The lease under which one run writes checkpoints to a storage.

Each lease is a file of its own, whose number is one more than that of the lease before it: only one process can create
it, and only its holder changes it. A lease is lost exactly when a file of the next number exists. Files of earlier
leases stay, a few hundred bytes for each start of a run.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from windlass.train.checkpoint.store import lease
from windlass.train.checkpoint.store.errors import CheckpointError, LeaseHeldError, LeaseLostError
from windlass.train.checkpoint.store.inventory import candidate_keys
from windlass.train.checkpoint.store.layout import CONTROL, lease_file, newest_token
from windlass.train.checkpoint.store.lease import Holder, LeaseObserver, LeaseRecord, LeaseVerdict
from windlass.train.checkpoint.store.lease_renewal import LeaseRenewal
from windlass.train.checkpoint.store.process_identity import process_life
from windlass.train.checkpoint.store.storage import StorageBackend

_POLL_S = 1.0
_SETTLE_S = 2.0
"""Seconds until a lease of a store without conditional writes is read back: the last of two writers keeps it."""


class Timing(NamedTuple):
    """The clock of this process, and its pause; other ones in tests."""

    now: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep


class WriterLease:
    """A lease that this process holds, renewed in the background until `release` or `abandon`."""

    def __init__(self, storage: StorageBackend, token: int, record: LeaseRecord) -> None:
        self.token, self._storage, self._record = token, storage, record
        self._lock = threading.Lock()
        self._renewal = LeaseRenewal(self._renew, record.duration_s)

    def check(self) -> None:
        """Raise LeaseLostError if another process has taken the lease, StorageError if that cannot be known."""
        with self._lock:
            taken = _read(self._storage, self.token + 1)
            if taken is None:
                found = _read(self._storage, self.token)
                if found is None:
                    found = self._restore_file()
                taken = None if found.nonce == self._record.nonce else found
        if taken is not None:
            raise LeaseLostError(
                f"{self._storage.location}: the lease of this run was taken by {taken.holder}\n"
                "this run saves nothing more there; end one of the two, or use another location for it"
            )

    def advance(self, past: int = 0) -> None:
        """Take the next lease in place of this one, so that later checkpoints have names of their own.

        `past`: a token that is to be exceeded.
        """
        self.check()
        token = max(self.token, past) + 1
        with self._lock:
            self._record = replace(self._record, nonce=uuid.uuid4().hex, renewals=0)
            if not self._storage.create(lease_file(token), self._record.to_json()):
                raise LeaseLostError(f"{self._storage.location}: the lease of this run was taken by another one")
            self.token = token

    def release(self) -> None:
        """End the lease, so that the next run need not wait. Errors of the storage are ignored: it expires."""
        self._renewal.stop()
        with contextlib.suppress(CheckpointError), self._lock:
            self._storage.write(lease_file(self.token), replace(self._record, is_released=True).to_json())

    def abandon(self) -> None:
        """Renew no more: another start of this run takes the next lease, or has taken it."""
        self._renewal.stop(timeout_s=0.0)

    def _renew(self) -> None:
        with self._lock:
            self._record = replace(self._record, renewals=self._record.renewals + 1)
            self._storage.write(lease_file(self.token), self._record.to_json())

    def _restore_file(self) -> LeaseRecord:
        """Write the file again after a person has removed it; return the newest record."""
        token, record = read_newest(self._storage)
        if record is not None and token:
            return record
        self._storage.create(lease_file(self.token), self._record.to_json())
        return self._record


def take_writer_lease(
    storage: StorageBackend, me: Holder, report: Callable[[str], None], timing: Timing | None = None
) -> WriterLease:
    """Take the lease of a storage; wait for the end of one whose holder may be dead.

    Raises LeaseHeldError, which names the holder, if another run renews its lease or lives on this machine.
    """
    timing = timing or Timing()
    observer, has_waited = LeaseObserver(), False
    while True:
        token, record = read_newest(storage)
        verdict = _judge(token, record, me, observer, timing.now())
        if verdict is LeaseVerdict.FREE:
            taken = _try_take(storage, token + 1, LeaseRecord(me, uuid.uuid4().hex, lease.DURATION_S), report, timing)
            if taken is not None:
                return _above_all_checkpoints(storage, taken)
            continue
        assert record is not None  # noqa: S101 - a storage without a lease is free
        if verdict is LeaseVerdict.HELD:
            raise LeaseHeldError(
                f"{storage.location} is in use by another run: {record.holder}\n"
                "two runs would remove each other's checkpoints: end that run, or use another location for this one"
            )
        if not has_waited:
            has_waited = True
            report(
                f"{storage.location} was last used by {record.holder}, which did not end in good order: waiting up to "
                f"{record.duration_s:.0f} s to see whether it still runs"
            )
        timing.pause(min(_POLL_S, record.duration_s / 10))


def read_newest(storage: StorageBackend) -> tuple[int, LeaseRecord | None]:
    """Return the newest lease with its token; (0, None) if there is none. Does not rely on the listing alone."""
    token = newest_token(storage.sizes(CONTROL))
    record = _read(storage, token) if token else None
    for following in itertools.count(token + 1):
        found = _read(storage, following)
        if found is None:
            break
        token, record = following, found
    return token, record


def _above_all_checkpoints(storage: StorageBackend, taken: WriterLease) -> WriterLease:
    """Advance a lease whose token is not above those of all checkpoints; else its own would count as the older ones.

    So it is where checkpoints were copied without the folder of leases, as `cp -r run/* copy/` does. The lease before
    is taken first all the same: a holder that was taken for dead looks for it.
    """
    try:
        highest = max((key.token for key in candidate_keys(storage)), default=0)
        if highest >= taken.token:
            taken.advance(past=highest)
    except CheckpointError:
        taken.abandon()
        raise
    return taken


def _judge(token: int, record: LeaseRecord | None, me: Holder, observer: LeaseObserver, now: float) -> LeaseVerdict:
    if record is None:
        return LeaseVerdict.FREE
    seen = observer.observe(lease_file(token), record.to_json(), now)
    return lease.judge_lease(record, me, process_life(record.holder.process), seen)


def _try_take(
    storage: StorageBackend, token: int, record: LeaseRecord, report: Callable[[str], None], timing: Timing
) -> WriterLease | None:
    """Return the lease, or None if another process was faster."""
    name, data = lease_file(token), record.to_json()
    if not storage.create(name, data):
        return None
    if storage.create(name, data + b"\n"):  # the store has replaced what it should have kept
        report(
            f"warning: {storage.location}: the store lacks conditional writes (If-None-Match), so two runs that start "
            "there within the same seconds may not notice each other; runs that start later do"
        )
        timing.pause(_SETTLE_S)
        found = _read(storage, token)
        if found is None or found.nonce != record.nonce:
            return None
    return WriterLease(storage, token, record)


def _read(storage: StorageBackend, token: int) -> LeaseRecord | None:
    data = storage.read(lease_file(token))
    return None if data is None else lease.parse_record(data)
