"""Computes step time, throughput, speed-up and efficiency from the step reports of runs. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from windlass.cli.speedup.sizes import Size

_MS = "_ms"
_STEP = "step_ms"


@dataclass(frozen=True, slots=True)
class Reading:
    """A report of the first rank after some steps: the step number and the means since the last report, times in ms."""

    step: int
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """One run. `seconds`: duration including startup and shutdown; `whole`: whether it was not cancelled early."""

    size: Size
    job: str
    readings: tuple[Reading, ...] = ()
    seconds: float = 0.0
    whole: bool = True


@dataclass(frozen=True, slots=True)
class StepPace:
    """Means over the measured steps of a run."""

    steps: int
    step_ms: float
    samples_per_second: float
    batch: float
    """Samples per step."""
    phases: Mapping[str, float] = field(default_factory=dict)
    """Milliseconds of each phase of a step on the first rank; `other` is the rest of the step."""


def counted_readings(readings: Sequence[Reading], warmup: int) -> list[tuple[int, Reading]]:
    """Returns readings with the number of steps each covers, without the first and those that began in the warm-up.

    `warmup`: in steps.
    """
    pairs = itertools.pairwise(readings)
    return [(after.step - before.step, after) for before, after in pairs if warmup <= before.step < after.step]


def pace_of(readings: Sequence[Reading], warmup: int) -> StepPace | None:
    """Returns the means after the warm-up; None if no reading follows it, or one has no step time."""
    kept = counted_readings(readings, warmup)
    steps = sum(count for count, _ in kept)
    if not steps or any(_STEP not in each.values for _, each in kept):
        return None

    def mean(name: str) -> float:
        return sum(count * each.values.get(name, 0.0) for count, each in kept) / steps

    step_ms = mean(_STEP)
    rates = sum(count * each.values[_STEP] * each.values.get("samples_per_second", 0.0) for count, each in kept)
    batch = rates / steps / 1000
    names = dict.fromkeys(name for _, each in kept for name in each.values if name.endswith(_MS) and name != _STEP)
    phases = {name.removesuffix(_MS): mean(name) for name in names}
    phases["other"] = max(0.0, step_ms - sum(phases.values()))
    return StepPace(steps, step_ms, batch / step_ms * 1000 if step_ms else 0.0, batch, phases)


def compare_runs(runs: Sequence[MeasuredRun], warmup: int) -> list[dict[str, Any]]:
    """Returns a row for each size, smallest first, relative to the smallest.

    Compares throughput; if a run reported no steps, compares the durations of whole runs.
    """
    paces = {run.size: pace_of(run.readings, warmup) for run in runs}
    ordered = sorted(runs, key=lambda run: run.size.ranks)
    have_steps = all(paces.values())
    speeds = [_speed(run, paces[run.size] if have_steps else None) for run in ordered]
    rows = []
    for run, speed in zip(ordered, speeds, strict=True):
        speedup = speed / speeds[0] if speeds[0] else 0.0
        ideal = run.size.ranks / ordered[0].size.ranks
        plain = {"ranks": run.size.ranks, "nodes": run.size.nodes, "procs": run.size.procs, "job": run.job}
        rows.append(
            plain
            | {"speedup": speedup, "efficiency": speedup / ideal, "seconds": run.seconds}
            | _step_fields(paces[run.size] if have_steps else None)
        )
    return rows


def _speed(run: MeasuredRun, pace: StepPace | None) -> float:
    if pace is not None:
        return pace.samples_per_second or 1000 / pace.step_ms
    return 1 / run.seconds if run.seconds else 0.0


def _step_fields(pace: StepPace | None) -> dict[str, Any]:
    if pace is None:
        return {"samples_per_second": None, "step_ms": None, "steps": None, "batch": None, "phases": {}}
    return {
        "samples_per_second": pace.samples_per_second,
        "step_ms": pace.step_ms,
        "steps": pace.steps,
        "batch": round(pace.batch),
        "phases": dict(pace.phases),
    }
