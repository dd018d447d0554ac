"""Leases of a storage: who may write checkpoints there, and who reads one. Decides from observations. Pure.

A lease is a small file that its holder renews. It ends when an observer has seen no change for the duration that the
file states, by the observer's own monotonic clock: clocks of two machines are never compared.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import NamedTuple

DURATION_S = 60.0
"""Seconds without a change after which a lease has ended: longer than network filesystems cache a folder."""
RENEWALS_PER_DURATION = 4
_MAX_DURATION_S = 3600.0


class ProcessIdentity(NamedTuple):
    """One process. `machine` identifies a boot and a PID namespace, "" if unknown; `started` is in ticks since boot."""

    host: str
    machine: str
    pid: int
    started: int


class ProcessLife(StrEnum):
    """Whether a process lives, as far as another process can know."""

    ALIVE = "alive"
    GONE = "gone"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of a lease."""

    job: str
    """Id of the job, "" if unknown. What follows "@" makes it unique, and is not shown."""
    generation: int
    """Number of the job's start, from 1."""
    process: ProcessIdentity
    since_ms: int
    """Start of the lease in ms since the epoch, for people alone."""

    def __str__(self) -> str:
        if not self.process.pid:
            return "an unknown process"
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since_ms / 1000))
        name = self.job.partition("@")[0]
        job = f"job {name}, generation {self.generation}, " if name else ""
        return f"{job}process {self.process.pid} on {self.process.host}, since {since}"


UNKNOWN_HOLDER = Holder("", 0, ProcessIdentity("", "", 0, 0), 0)


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The content of a lease file."""

    holder: Holder
    nonce: str = ""
    """Random text by which the holder recognizes its own lease."""
    duration_s: float = DURATION_S
    renewals: int = 0
    is_released: bool = False

    def to_json(self) -> bytes:
        """Serialize the record."""
        return json.dumps(asdict(self)).encode()


def parse_record(data: bytes) -> LeaseRecord:
    """Parse a lease file. One that a killed process has left half written has an unknown holder."""
    try:
        content = json.loads(data)
        about = content["holder"]
        host, machine, pid, started = about["process"]
        process = ProcessIdentity(str(host), str(machine), int(pid), int(started))
        holder = Holder(str(about["job"]), int(about["generation"]), process, int(about["since_ms"]))
        duration_s = min(_MAX_DURATION_S, max(0.0, float(content["duration_s"])))
        return LeaseRecord(
            holder, str(content["nonce"]), duration_s, int(content["renewals"]), bool(content["is_released"])
        )
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return LeaseRecord(UNKNOWN_HOLDER)


class LeaseObservation(NamedTuple):
    """The history of a lease file as one process has seen it."""

    unchanged_s: float
    """Seconds since the first observation, or since the last one with another content."""
    has_changed: bool


class LeaseObserver:
    """Notes when the content of lease files changes. `now`: the monotonic clock of this process, in seconds."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[bytes, float, bool]] = {}

    def observe(self, name: str, data: bytes, now: float) -> LeaseObservation:
        """Note the content of a file."""
        before = self._seen.get(name)
        if before is None or before[0] != data:
            self._seen[name] = data, now, before is not None
        _, since, has_changed = self._seen[name]
        return LeaseObservation(now - since, has_changed)


class LeaseVerdict(StrEnum):
    """Decision of an observer about a lease."""

    FREE = "free"
    UNDECIDED = "undecided"
    """Neither renewed nor expired while it was observed: observe it further."""
    HELD = "held"


def judge_lease(record: LeaseRecord | None, me: Holder, life: ProcessLife, seen: LeaseObservation) -> LeaseVerdict:
    """Decide whether `me` may take a lease. `record`: None if there is none. `life`: of the holder's process."""
    if record is None or record.is_released or life is ProcessLife.GONE:
        return LeaseVerdict.FREE
    if is_superseded_by(record.holder, me):
        return LeaseVerdict.FREE
    if life is ProcessLife.ALIVE:
        return LeaseVerdict.HELD
    if seen.unchanged_s >= record.duration_s:
        return LeaseVerdict.FREE
    return LeaseVerdict.HELD if seen.has_changed else LeaseVerdict.UNDECIDED


def is_superseded_by(holder: Holder, me: Holder) -> bool:
    """Whether `me` is the same process, or a later start of the same job, which needs not wait."""
    if not me.job or holder.job != me.job:
        return False
    return holder.process == me.process or holder.generation < me.generation
