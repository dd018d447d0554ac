"""What one rank tells of itself, without asking others: how long its steps take, what of that is work, what waiting."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable

import torch

from windlass.train.telemetry.nvml import Gauge
from windlass.train.telemetry.phases import Phase, Phases, between

_SECONDS = 1.0
"""Between two messages at least: what somebody who looks on can follow."""
_WAITING: tuple[Phase, ...] = ("agree", "data", "save")


class Own:
    """Counts this rank's steps."""

    def __init__(self, phases: Phases, device: torch.device, now: Callable[[], float] = time.monotonic) -> None:
        self._phases, self._device, self._now = phases, device, now
        self._gauge = Gauge(device)
        self._since, self._counted, self._before = now(), 0, phases.totals()
        self.values: dict[str, float] = {}
        """The last ones, by name.

        `rank_step_ms`; of that `rank_wait_ms` (for samples, for the slowest rank's vote, for a save), and what is left
        `rank_busy_ms`; `rank_memory` in bytes, of the device at most or, without a GPU, of the process; what NVML says.
        """

    def count(self) -> bool:
        """One step more. Whether there are new values: at most once in a second."""
        self._counted += 1
        passed = self._now() - self._since
        if passed < _SECONDS:
            return False
        totals = self._phases.totals()
        spent = between(self._before, totals)
        step = passed * 1000 / self._counted
        wait = sum(spent.get(phase, 0.0) for phase in _WAITING) / self._counted
        self._since, self._counted, self._before = self._now(), 0, totals
        times = {"rank_step_ms": step, "rank_wait_ms": wait, "rank_busy_ms": step - wait}
        self.values = {**times, "rank_memory": float(self._memory()), **self._gauge.values()}
        return True

    def close(self) -> None:
        """Nothing more is measured."""
        self._gauge.close()

    def _memory(self) -> int:
        if self._device.type == "cuda":
            return int(torch.cuda.max_memory_allocated(self._device))
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts in KiB
