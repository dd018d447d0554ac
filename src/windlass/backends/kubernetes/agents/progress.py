"""Builds `status.training` from the agents' reports. Pure."""

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
"""Metrics of `windlass.train`, by their name in the API."""
_DIGITS = 6
_WHOLE = 1e15
"""Whole numbers below this are written as integers; 64-bit JSON parsers hold them."""


def training(
    before: Mapping[str, Any], measured: wire.Telemetry | None, generation: int, now: int, **more: str | int
) -> Mapping[str, Any]:
    """Returns `status.training` for metrics of ranks. `more`: other changed fields. Times in ms."""
    said = {"generation": generation, **(_numbers(measured) if measured is not None else {}), **more}
    after = {**before, **said}
    return before if after == before else {**after, "time": rfc3339(now)}


def _numbers(measured: wire.Telemetry) -> dict[str, Any]:
    found = {name: measured.values[key] for key, name in _NAMES.items() if key in measured.values}
    finite = {name: value for name, value in found.items() if abs(value) < float("inf")}
    return {"step": measured.step, **{name: _short(value) for name, value in finite.items()}}


def _short(value: float) -> float | int:
    return int(value) if abs(value) < _WHOLE and value == int(value) else float(f"{value:.{_DIGITS}g}")


def ranks_seen(attendees: Iterable[Participant], now: int) -> list[dict[str, Any]]:
    """Returns the last report of the slowest rank in each pod, and of ranks with metrics.

    In the format of `server.data_source`. `now` in ms.
    """
    ranks: dict[int, dict[str, Any]] = {}
    for each in attendees:
        behind, measured = each.behind, each.measured
        if behind is not None and behind.rank >= 0:
            began, printed = now - round(behind.waited * 1000), now - round(behind.silent * 1000)
            told = {"step": behind.step, "phase": behind.phase, "at": began, "printed_at": printed}
            ranks[behind.rank] = {"rank": behind.rank, "node": each.peer.node, **told}
        if measured is not None:
            here = ranks.setdefault(measured.rank, {"rank": measured.rank, "node": each.peer.node, "printed_at": None})
            here.update(values=dict(measured.values), reported_step=measured.step)
    return [ranks[number] for number in sorted(ranks)]


def ranks_remembered(training: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the same from `status.training`, for a gang without connected agents."""
    values = {ours: training[name] for ours, name in _NAMES.items() if name in training}
    if not values or "step" not in training:
        return []
    return [{"rank": 0, "printed_at": None, "reported_step": training["step"], "values": values}]
