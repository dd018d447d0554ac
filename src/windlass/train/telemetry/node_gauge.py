"""CPU and memory of the node by /proc, which has those of the whole node in a container, too."""

from __future__ import annotations

import os
from pathlib import Path

_PROC = Path("/proc")


class NodeGauge:
    """Measures the node between two calls, on the first rank of each node only."""

    def __init__(self, proc: Path = _PROC) -> None:
        self._proc = proc
        self._is_first = os.environ.get("LOCAL_RANK", "0") == "0"
        self._before = self._cpu_times() if self._is_first else None

    def values(self) -> dict[str, float]:
        """Return `node_cpu`, from 0 to 1, and `node_memory` in bytes without caches; nothing where they are hidden."""
        return {**self._cpu(), **self._memory()} if self._is_first else {}

    def _cpu(self) -> dict[str, float]:
        before, self._before = self._before, self._cpu_times()
        if before is None or self._before is None or self._before[1] <= before[1]:
            return {}
        busy = (self._before[0] - before[0]) / (self._before[1] - before[1])
        return {"node_cpu": min(1.0, max(0.0, busy))}

    def _cpu_times(self) -> tuple[int, int] | None:
        """Return the busy and the whole time in ticks. The fourth and the fifth number are idle and disk wait."""
        try:
            ticks = [int(each) for each in (self._proc / "stat").read_text().split("\n", 1)[0].split()[1:9]]
            return sum(ticks) - ticks[3] - ticks[4], sum(ticks)
        except (OSError, ValueError, IndexError):
            return None

    def _memory(self) -> dict[str, float]:
        try:
            lines = dict(line.split(":", 1) for line in (self._proc / "meminfo").read_text().splitlines())
            total, available = (int(lines[name].split()[0]) for name in ("MemTotal", "MemAvailable"))
        except (OSError, ValueError, KeyError, IndexError):
            return {}
        return {"node_memory": float((total - available) * 1024)}
