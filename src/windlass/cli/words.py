"""Times and amounts as people read them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from windlass.core.resources import MEMORY, format_quantity

_LEVELS = ((86_400_000, "d", 3_600_000, "h"), (3_600_000, "h", 60_000, "m"), (60_000, "m", 1_000, "s"))


def span(milliseconds: int | None) -> str:
    """A duration in its two largest units: "40 ms", "1.2 s", "3m04s", "2h10m", "5d03h"."""
    if milliseconds is None:
        return "-"
    if milliseconds < 1_000:
        return f"{max(0, milliseconds)} ms"
    if milliseconds < 60_000:
        return f"{milliseconds // 100 / 10:.1f} s"
    for size, name, small, small_name in _LEVELS:
        if milliseconds >= size:
            return f"{milliseconds // size}{name}{milliseconds % size // small:02}{small_name}"
    return ""


def moment(at: int | None, now: int | None = None) -> str:
    """A time on this machine's clock: "14:20:05" today, "11-21 14:20" on another day."""
    if at is None:
        return "-"
    then, today = time.localtime(at / 1000), time.localtime((now if now is not None else time.time() * 1000) / 1000)
    return time.strftime("%H:%M:%S" if then[:3] == today[:3] else "%m-%d %H:%M", then)


def when(at: int | None, sure: str) -> str:
    """A start to come: "by 14:20:05" if that is a bound, "~ 14:20:05" if it is only expected."""
    if at is None:
        return "-"
    return f"{'by' if sure == 'bound' else '~'} {moment(at)}"


def amounts(resources: Mapping[str, int]) -> str:
    """ "4 cpu, 16Gi memory, 2 gpu"."""
    return ", ".join(f"{amount(name, value)} {name}" for name, value in resources.items() if value)


def amount(resource: str, value: int) -> str:
    """One amount; memory rounded to what can be read at a glance."""
    if resource != MEMORY:
        return format_quantity(resource, value)
    for power, unit in ((40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")):
        if value >= 1 << power:
            return f"{value / (1 << power):.4g}{unit}"
    return str(value)


def several(count: int, one: str, many: str = "") -> str:
    """ "1 job", "3 jobs"."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def shortened(names: Sequence[str], most: int = 4) -> str:
    """ "n1,n2,n3,n4 and 12 more"."""
    head = ",".join(names[:most])
    return f"{head} and {len(names) - most} more" if len(names) > most else head
