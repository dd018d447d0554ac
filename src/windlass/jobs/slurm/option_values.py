"""Reads values of sbatch's options: time limits, amounts of memory, counts of GPUs, numbers."""

from __future__ import annotations

import re
from typing import NamedTuple

from windlass.jobs.syntax.durations import SLURM, parse_duration

_MEMORY = re.compile(r"([0-9]{1,12})([KMGTkmgt]?)[Bb]?")
_SHIFT = {"K": 10, "M": 20, "G": 30, "T": 40}
_GPUS = re.compile(r"(?:gpu:)?(?:([A-Za-z][\w.+-]*|[0-9]g\.[0-9]+gb(?:\+me)?):)?([0-9]{1,6})|gpu|gpu:([A-Za-z][\w.-]*)")
_MIG = re.compile(r"(?:.*[_-])?([1-9]g\.[1-9][0-9]{0,3}gb(?:\+me)?)")
_UNLIMITED = ("0", "infinite", "unlimited", "-1")


class GpuCount(NamedTuple):
    """A number of GPUs, and their type if one is named."""

    number: int
    type: str = ""

    @property
    def mig_profile(self) -> str:
        """The profile of a type that is a slice of a GPU: "a100_3g.20gb" has "3g.20gb"; else ""."""
        found = _MIG.fullmatch(self.type)
        return found[1] if found else ""


def parse_time_limit(text: str) -> int | None:
    """A time limit in milliseconds; None if there is none. A plain number is minutes. Raises ValueError."""
    if text.lower() in _UNLIMITED:
        return None
    if text.isdecimal() and len(text) < 10:
        return int(text) * 60_000
    if re.fullmatch(SLURM, text):
        return parse_duration(text) or None
    raise ValueError(f"expects minutes, hours:minutes:seconds or days-hours, not {text[:40]!r}")


def parse_memory(text: str) -> int:
    """An amount of memory in bytes; without a unit it is MiB. Raises ValueError."""
    found = _MEMORY.fullmatch(text)
    if found is None:
        raise ValueError(f"expects an amount of memory such as 64G, not {text[:40]!r}")
    return int(found[1]) << _SHIFT[found[2].upper() or "M"]


def parse_gpus(text: str) -> GpuCount:
    """The GPUs of "4", "a100:4", "gpu:4", "gpu:a100:4" or "gpu". Raises ValueError."""
    found = _GPUS.fullmatch(text)
    if found is None:
        raise ValueError(f"expects a number of GPUs such as 4 or a100:4, not {text[:40]!r}")
    return GpuCount(int(found[2] or 1), found[1] or found[3] or "")


def parse_count(text: str) -> int:
    """A whole number of at least 1, which may end in k or m. Raises ValueError."""
    found = re.fullmatch(r"([0-9]{1,9})([kKmM]?)", text)
    number = int(found[1]) * {"": 1, "k": 1024, "m": 1024**2}[found[2].lower()] if found else 0
    if number < 1:
        raise ValueError(f"expects a whole number of at least 1, not {text[:40]!r}")
    return number


def parse_range(text: str) -> tuple[int, int]:
    """The least and the most of "4" or "2-8". Raises ValueError."""
    least, _, most = text.partition("-")
    bounds = parse_count(least), parse_count(most or least)
    if bounds[0] > bounds[1]:
        raise ValueError(f"expects MIN-MAX with MIN at most MAX, not {text[:40]!r}")
    return bounds
