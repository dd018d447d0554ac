"""What agents tell of a gang, as its object says it: `status.training`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass import wire
from windlass.jobs.kubernetes.status_times import rfc3339

FIELD = "training"
"""Below `status`."""
_NAMES = {
    "loss": "loss",
    "step_ms": "stepMilliseconds",
    "samples_per_second": "samplesPerSecond",
    "utilisation": "utilisation",
    "memory": "memory",
}
"""What `windlass.train` measures, and what the API calls it."""
_DIGITS = 6


def training(
    before: Mapping[str, Any], measured: wire.Telemetry | None, generation: int, now: int, **more: str | int
) -> Mapping[str, Any]:
    """`status.training` after a look at what ranks measured. `more`: what else has changed. Times in ms."""
    said = {"generation": generation, **(_numbers(measured) if measured is not None else {}), **more}
    after = {**before, **said}
    return before if after == before else {**after, "time": rfc3339(now)}


def _numbers(measured: wire.Telemetry) -> dict[str, Any]:
    found = {name: measured.values[key] for key, name in _NAMES.items() if key in measured.values}
    finite = {name: value for name, value in found.items() if abs(value) < float("inf")}
    return {"step": measured.step, **{name: _short(value) for name, value in finite.items()}}


def _short(value: float) -> float | int:
    return int(value) if value == int(value) else float(f"{value:.{_DIGITS}g}")
