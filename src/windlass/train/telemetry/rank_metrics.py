"""Metrics of one rank, measured without communication: step time, and how much of it is work or waiting."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable

import torch

from windlass.train.telemetry.gpu_gauge import GpuGauge
from windlass.train.telemetry.node_gauge import NodeGauge
from windlass.train.telemetry.phase_timers import Phase, PhaseTimers, time_between

_INTERVAL_S = 1.0
"""Minimum seconds between two messages."""
_WAITING_PHASES: tuple[Phase, ...] = ("agree", "data", "save")
_COLLECTIVE_PHASES: tuple[Phase, ...] = ("backward", "pipeline", "optimizer")
"""Work during which a rank may also wait for others: how long is known by comparison with other ranks."""


class RankMetrics:
    """Averages over this rank's steps."""

    def __init__(self, phases: PhaseTimers, device: torch.device, now: Callable[[], float] = time.monotonic) -> None:
        self._phases, self._device, self._now = phases, device, now
        self._gauge, self._node = GpuGauge(device), NodeGauge()
        self._since, self._counted, self._before = now(), 0, phases.totals()
        self._began: float | None = None
        self._origin = self._before
        self.values: dict[str, float] = {}
        """The last values by name.

        `rank_step_ms`; of that `rank_wait_ms` (for samples, for the step consensus, for a save), and the rest
        `rank_busy_ms`; of that `rank_last_PHASE_ms` in the phases in which ranks may wait for each other;
        `rank_total_ms` since the first step, and of that `rank_total_PHASE_ms` in each phase;
        `rank_memory` in bytes, the peak of the device or, without a GPU, of the process; the values of NVML; and on
        the first rank of a node those of `NodeGauge`.
        """

    def count(self) -> bool:
        """Count one step. Returns whether there are new values, at most once a second."""
        if self._began is None:
            self._began, self._origin = self._now(), self._phases.totals()
        self._counted += 1
        passed = self._now() - self._since
        if passed < _INTERVAL_S:
            return False
        totals = self._phases.totals()
        spent = time_between(self._before, totals)
        step = passed * 1000 / self._counted
        wait = sum(spent.get(phase, 0.0) for phase in _WAITING_PHASES) / self._counted
        times = {"rank_step_ms": step, "rank_wait_ms": wait, "rank_busy_ms": step - wait}
        times |= {f"rank_last_{each}_ms": spent[each] / self._counted for each in _COLLECTIVE_PHASES if each in spent}
        self._since, self._counted, self._before = self._now(), 0, totals
        measured = {"rank_memory": float(self._memory()), **self._gauge.values(), **self._node.values()}
        self.values = {**times, **self._totals(totals), **measured}
        return True

    def close(self) -> None:
        """Stop measuring."""
        self._gauge.close()

    def _totals(self, totals: dict[Phase, float]) -> dict[str, float]:
        """Return the time since the first step and its phases, in ms."""
        phases = time_between(self._origin, totals)
        passed = (self._now() - (self._began or 0.0)) * 1000
        return {"rank_total_ms": passed, **{f"rank_total_{phase}_ms": spent for phase, spent in phases.items()}}

    def _memory(self) -> int:
        if self._device.type == "cuda":
            return int(torch.cuda.max_memory_allocated(self._device))
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts in KiB
