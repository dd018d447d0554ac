"""The rule by which a notebook is idle. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

_BUSY = "busy"


def idle_seconds(
    kernels: Iterable[Mapping[str, Any]], terminals: Iterable[Mapping[str, Any]], newest_change: float, now: float
) -> float:
    """Returns how long nothing has happened: no cell ran, no terminal was used, no file changed. 0 while a cell runs.

    `kernels`, `terminals`: as Jupyter's API lists them. `newest_change`, `now`: seconds since the epoch.
    """
    running = list(kernels)
    if any(each.get("execution_state") == _BUSY for each in running):
        return 0.0
    used = [_time_of(each.get("last_activity")) for each in (*running, *terminals)]
    return max(now - max([newest_change, *used]), 0.0)


def _time_of(value: object) -> float:
    """Returns the time of a text in ISO 8601 as seconds since the epoch, 0 for anything else."""
    try:
        return datetime.fromisoformat(str(value)).timestamp()
    except ValueError:
        return 0.0
