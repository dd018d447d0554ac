"""Writes and reads snapshot files: the complete input of a plan, from which the identical plan can be made again.

JSON, versioned, gzip if its name ends in .gz or its first bytes say so. Derived values are left out: free capacity,
equivalence classes and the usage of queues follow from nodes, queues and gangs.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from windlass.core.ledger import Ledger
from windlass.core.model.gang import PendingGang, RunningGang, shape_of
from windlass.core.model.node import Node, Topology
from windlass.core.model.plan import Plan, Preemption, Resize
from windlass.core.model.policy import Policy
from windlass.core.model.queue import PastUsage, Queue
from windlass.core.model.reservation import Reservation
from windlass.core.model.snapshot import Snapshot
from windlass.core.model.status import Placement
from windlass.jobs.errors import input_error
from windlass.jobs.syntax.text import read_bytes

FORMAT = "windlass snapshot"
VERSION = 1
MAX_BYTES = 2**30
"""Bytes after unpacking. 100,000 nodes and as many gangs take a tenth of it."""
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Decisions:
    """The decisions of a plan, without its pending reasons."""

    admissions: Mapping[str, Placement]
    preemptions: tuple[Preemption, ...] = ()
    resizes: tuple[Resize, ...] = ()
    order: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class SnapshotRecord:
    """A snapshot, the time of the plan (ms), and the plan that was made of it, if there is one."""

    snapshot: Snapshot
    now: int
    plan: Decisions | None = None


@dataclass(frozen=True, slots=True)
class _Written:
    """The file's fields."""

    format: str
    version: int
    now: int
    number: int
    nodes: tuple[Node, ...]
    topology: Topology
    queues: tuple[Queue, ...]
    policy: Policy
    reservations: tuple[Reservation, ...]
    running: tuple[RunningGang, ...]
    pending: tuple[PendingGang, ...]
    past: Mapping[str, PastUsage]
    plan: Decisions | None = None


def decisions_of(plan: Plan) -> Decisions:
    """The decisions of the plan."""
    admissions = {admission.job_id: admission.placement for admission in plan.admissions}
    return Decisions(admissions, plan.preemptions, plan.resizes, tuple(plan.order))


def to_plain(taken: SnapshotRecord) -> dict[str, Any]:
    """Returns a snapshot record as plain data: dicts, lists, numbers, text."""
    snapshot = taken.snapshot
    pending = sorted(
        (gang for each in snapshot.classes for gang in each.gangs), key=lambda gang: (gang.number, gang.id)
    )
    written = _Written(
        format=FORMAT,
        version=VERSION,
        now=taken.now,
        number=snapshot.version,
        nodes=snapshot.table.nodes,
        topology=snapshot.table.topology,
        queues=tuple(snapshot.queues.values()),
        policy=snapshot.policy,
        reservations=snapshot.reservations,
        running=tuple(snapshot.running.values()),
        pending=tuple(replace(gang, shape=()) for gang in pending),
        past=snapshot.past_usage,
        plan=taken.plan,
    )
    plain: dict[str, Any] = msgspec.to_builtins(written)
    for gang in plain["pending"]:
        del gang["shape"]
    return plain


def from_plain(plain: object) -> SnapshotRecord:
    """Returns the snapshot record of plain data: the inverse of `to_plain`.

    Raises ValueError with a text that names the fault.
    """
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise ValueError("is no snapshot; make one with: windlass snapshot FILE")
    if plain.get("version") != VERSION:
        raise ValueError(f"is a snapshot of version {plain.get('version')}, and this Windlass reads version {VERSION}")
    try:
        pending = [{**gang, "shape": []} for gang in plain["pending"]]
        written = msgspec.convert({**plain, "pending": pending}, _Written)
        return SnapshotRecord(_rebuilt(written), written.now, written.plan)
    except (msgspec.ValidationError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"is a damaged snapshot: {error}") from None


def to_bytes(taken: SnapshotRecord, *, packed: bool) -> bytes:
    """Returns the content of the file of a record; `packed`: with gzip."""
    text = plain_bytes(to_plain(taken))
    return pack(text) if packed else text


def plain_bytes(plain: Mapping[str, Any]) -> bytes:
    """Returns the content of a file from what `to_plain` returned."""
    return msgspec.json.format(msgspec.json.encode(plain), indent=1)


def pack(content: bytes) -> bytes:
    """Compresses content with gzip; equal contents give equal bytes."""
    return gzip.compress(content, mtime=0)


def from_bytes(content: bytes, source: str) -> SnapshotRecord:
    """The inverse of `to_bytes`. `source` names the file in errors. Raises InputError."""
    try:
        text = _unpacked(content) if content.startswith(_GZIP) else content
        return from_plain(msgspec.json.decode(text))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        problem = f"is no JSON, in which `windlass snapshot FILE` writes snapshots: {error}"
        raise input_error(source, problem) from None
    except ValueError as error:
        raise input_error(source, str(error)) from None


def read_snapshot(path: str) -> SnapshotRecord:
    """Reads a snapshot file, or standard input for "-". Raises InputError."""
    return from_bytes(read_bytes(path, MAX_BYTES), path)


def _unpacked(content: bytes) -> bytes:
    try:
        opener = zlib.decompressobj(wbits=31)
        text = opener.decompress(content, MAX_BYTES)
    except zlib.error as error:
        raise ValueError(f"is a damaged gzip file: {error}") from None
    if not opener.eof:
        raise ValueError("is a gzip file that was cut off, or of more than 1 GiB")
    return text


def _rebuilt(written: _Written) -> Snapshot:
    """Returns the snapshot of a new ledger with the written nodes and gangs."""
    ledger = Ledger(written.nodes, written.queues, written.topology, written.policy, written.reservations)
    for run in written.running:
        ledger.hold(run)
    for gang in written.pending:
        ledger.add_pending(replace(gang, shape=shape_of(gang.queue, gang.demands)))
    ledger.version = written.number
    return replace(ledger.snapshot(), past_usage=written.past)
