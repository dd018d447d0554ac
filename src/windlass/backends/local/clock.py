"""The backend's time: the boot clock, which only goes forward, plus an offset that is constant during a boot."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class BootOffset(NamedTuple):
    """The stored offset of a boot."""

    boot_id: str
    offset: int


class ClockSources(NamedTuple):
    """Sources of time, in ms; tests replace them."""

    boot_id: Callable[[], str]
    boottime: Callable[[], int]
    wall: Callable[[], int]


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _boottime() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def _wall() -> int:
    return time.time_ns() // 1_000_000


SYSTEM = ClockSources(_boot_id, _boottime, _wall)


class Clock(NamedTuple):
    """A clock: `now` is boot time plus `offset`, both in ms."""

    sources: ClockSources
    offset: int

    def now(self) -> int:
        """Returns milliseconds since the epoch; never goes back, even if the wall clock does."""
        return self.sources.boottime() + self.offset


def boot_offset(sources: ClockSources, kept: BootOffset | None, last: int) -> BootOffset:
    """Returns the offset of this boot: the stored one, or a new one from the wall clock, with time after `last`."""
    boot_id = sources.boot_id()
    if kept is not None and kept.boot_id == boot_id:
        return kept
    boottime = sources.boottime()
    return BootOffset(boot_id, max(sources.wall(), last) - boottime)
