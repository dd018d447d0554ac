"""Summarizes the last steps of all ranks with one small collective, only when a report is due."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from windlass.train.mesh.degrees import Degrees
from windlass.train.telemetry.console_line import StepSummary
from windlass.train.telemetry.flops import peak_of, utilisation
from windlass.train.telemetry.phase_timers import Phase, PhaseTimers, time_between


@dataclass(frozen=True, slots=True)
class RunProgress:
    """Progress of a run, and the size of one of its steps."""

    step: int
    steps: int
    samples: int
    """Samples of one step, over all ranks."""
    flops: float | None
    """Operations of one sample, forward and backward; None if not configured."""


class StepReporter:
    """Counts steps between two reports. All ranks report at the same steps."""

    def __init__(self, group: dist.ProcessGroup, phases: PhaseTimers, device: torch.device) -> None:
        self._group, self._phases, self._device = group, phases, device
        self._since = time.perf_counter()
        self._counted = 0
        self._before = phases.totals()

    def count(self) -> None:
        """Count one step."""
        self._counted += 1
        self._phases.drain()

    def summarize(self, share: Tensor, progress: RunProgress, degrees: Degrees) -> StepSummary:
        """Summarize the steps since the last report. `share`: this rank's share of the last loss. A collective."""
        now = time.perf_counter()
        count = max(1, self._counted)
        step_ms = (now - self._since) * 1000 / count
        self._since, self._counted = now, 0
        totals = self._phases.totals()
        phases = {phase: spent / count for phase, spent in time_between(self._before, totals).items()}
        self._before = totals
        own = [step_ms - phases.get("data", 0.0), *(phases.get(phase, 0.0) for phase in _COLLECTIVE_PHASES)]
        memory = torch.cuda.max_memory_allocated() if self._device.type == "cuda" else 0
        with self._phases.reporting("device"):
            loss = float(share)
        with self._phases.reporting("agree"):
            every = self._gather([loss, step_ms, float(memory), *own])
        losses, times, memories, *spent = zip(*every, strict=True)
        busies = busy_times(spent[0], spent[1:])
        slowest = max(times)
        ranks = degrees.size
        flops = None if progress.flops is None else progress.flops * progress.samples
        peak = peak_of(torch.cuda.get_device_name()) if self._device.type == "cuda" else None
        return StepSummary(
            progress.step,
            progress.steps,
            sum(losses) / (degrees.data_ranks * degrees.cp * degrees.tp),
            slowest,
            progress.samples / slowest * 1000 if slowest else 0.0,
            {str(phase): spent for phase, spent in phases.items()},
            None if flops is None else utilisation(flops, slowest / 1000, ranks, peak),
            int(max(memories)) or None,
            find_slow_ranks(busies, statistics.median(busies)),
        )

    def _gather(self, mine: list[float]) -> list[list[float]]:
        values = torch.zeros(dist.get_world_size(self._group), len(mine), dtype=torch.float64)
        values[dist.get_rank(self._group)] = torch.tensor(mine, dtype=torch.float64)
        dist.all_reduce(values, group=self._group)
        found: list[list[float]] = values.tolist()
        return found


_COLLECTIVE_PHASES: tuple[Phase, ...] = ("backward", "pipeline", "optimizer", "agree")
"""Phases in which a rank may wait for others: the last rank waits least."""
_SLOW_FACTOR = 1.3
"""Factor of the median; noise between ranks of quiet machines stays below."""
_MIN_LAG_MS = 5.0
"""Minimum lag in milliseconds that is reported."""


def busy_times(times: Sequence[float], phases: Sequence[Sequence[float]]) -> list[float]:
    """Return the time of a step without waiting for others, by rank. Pure.

    `times`: of a step; `phases`: of each phase with collectives. What a rank spends there above the fastest is waiting.
    """
    waits = [[spent - min(phase) for spent in phase] for phase in phases]
    return [whole - sum(wait) for whole, *wait in zip(times, *waits, strict=True)]


def find_slow_ranks(busy: Sequence[float], median: float) -> tuple[int, ...]:
    """Return ranks that compute longer than most. `busy`: milliseconds of a step without waiting for others, by rank.

    Pure.
    """
    limit = max(median * _SLOW_FACTOR, median + _MIN_LAG_MS)
    return tuple(rank for rank, spent in enumerate(busy) if spent > limit)
