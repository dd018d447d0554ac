"""Builds `status.training` and the progress of ranks from the agents' reports. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from windlass import wire
from windlass.backends.kubernetes.agents.rendezvous import Participant
from windlass.jobs.kubernetes.status.status_times import rfc3339

_NAMES = {
    "steps": "steps",
    "loss": "loss",
    "step_ms": "stepMilliseconds",
    "samples_per_second": "samplesPerSecond",
    "utilisation": "utilisation",
    "memory": "memory",
}
"""Names of metrics in `status.training`, by their name in `windlass.train`."""
_DIGITS = 6
"""Significant digits of a metric that is not a whole number."""
_MAX_INTEGER = 1e15
"""Bound of whole numbers that are written as integers, which parsers with 64-bit floats read exactly."""


def training(
    before: Mapping[str, Any], measured: wire.Telemetry | None, generation: int, now: int, **more: str | int
) -> Mapping[str, Any]:
    """Returns `status.training` after `before`, the same object if nothing has changed.

    `measured`: new metrics of a rank; `more`: other changed fields; `now` in ms.
    """
    changes = {"generation": generation, **(_metrics(measured) if measured is not None else {}), **more}
    after = {**before, **changes}
    return before if after == before else {**after, "time": rfc3339(now)}


def _metrics(measured: wire.Telemetry) -> dict[str, Any]:
    found = {name: measured.values[key] for key, name in _NAMES.items() if key in measured.values}
    finite = {name: value for name, value in found.items() if abs(value) < float("inf")}
    return {"step": measured.step, **{name: _rounded(value) for name, value in finite.items()}}


def _rounded(value: float) -> float | int:
    return int(value) if abs(value) < _MAX_INTEGER and value == int(value) else float(f"{value:.{_DIGITS}g}")


def ranks_seen(participants: Iterable[Participant], now: int) -> list[dict[str, Any]]:
    """Returns a row for the slowest rank of each pod and for each rank whose metrics a pod has reported, by rank.

    The format is that of `DataSource.ranks_seen`. `now` in ms.
    """
    ranks: dict[int, dict[str, Any]] = {}
    for each in participants:
        behind, measured = each.behind, each.measured
        if behind is not None and behind.rank >= 0:
            began, printed = now - round(behind.waited * 1000), now - round(behind.silent * 1000)
            position = {"step": behind.step, "phase": behind.phase, "at": began, "printed_at": printed}
            ranks[behind.rank] = {"rank": behind.rank, "node": each.peer.node, **position}
        if measured is not None:
            row = ranks.setdefault(measured.rank, {"rank": measured.rank, "node": each.peer.node, "printed_at": None})
            row.update(values=dict(measured.values), reported_step=measured.step)
    return [ranks[number] for number in sorted(ranks)]


def ranks_remembered(training: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the row of `ranks_seen` for rank 0 from `status.training`, for a gang without connected agents."""
    values = {metric: training[name] for metric, name in _NAMES.items() if name in training}
    if not values or "step" not in training:
        return []
    return [{"rank": 0, "printed_at": None, "reported_step": training["step"], "values": values}]
