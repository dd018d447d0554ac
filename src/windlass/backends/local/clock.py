"""The world's time: the boot clock, which only goes forward, plus an offset that is kept while the boot lasts."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Kept(NamedTuple):
    """What the state folder remembers: the offset that was used during a boot."""

    boot_id: str
    offset: int


class Sources(NamedTuple):
    """Where time comes from, in ms; other ones in tests."""

    boot_id: Callable[[], str]
    boottime: Callable[[], int]
    wall: Callable[[], int]


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _boottime() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def _wall() -> int:
    return time.time_ns() // 1_000_000


SYSTEM = Sources(_boot_id, _boottime, _wall)


class Clock(NamedTuple):
    """`now` is boot time plus `offset`, both in ms."""

    sources: Sources
    offset: int

    def now(self) -> int:
        """Milliseconds since the epoch; never goes back, whatever happens to the wall clock."""
        return self.sources.boottime() + self.offset


def offset(sources: Sources, kept: Kept | None, last: int) -> Kept:
    """The offset for this boot: the kept one, or a new one from the wall clock, but time never falls behind `last`."""
    boot_id = sources.boot_id()
    if kept is not None and kept.boot_id == boot_id:
        return kept
    boottime = sources.boottime()
    return Kept(boot_id, max(sources.wall(), last) - boottime)
