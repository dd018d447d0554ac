"""Builds `status.training` of a job and the rows of its ranks for the API from the agents' reports. Pure.

`gang_agents` writes the one and returns the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from windlass import wire
from windlass.agent.hang_detection import START_PHASE
from windlass.backends.kubernetes.agents.connected_agents import PodAgent
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


def training_status(
    before: Mapping[str, Any], telemetry: wire.Telemetry | None, generation: int, now: int, **more: str | int
) -> Mapping[str, Any]:
    """Returns `status.training` after `before`, the same object if nothing has changed.

    `telemetry`: new metrics of a rank; `more`: other changed fields; `now` in ms.
    """
    changes = {"generation": generation, **(_metrics(telemetry) if telemetry is not None else {}), **more}
    after = {**before, **changes}
    return before if after == before else {**after, "time": rfc3339(now)}


def _metrics(telemetry: wire.Telemetry) -> dict[str, Any]:
    found = {name: telemetry.values[key] for key, name in _NAMES.items() if key in telemetry.values}
    finite = {name: value for name, value in found.items() if abs(value) < float("inf")}
    return {"step": telemetry.step, **{name: _rounded(value) for name, value in finite.items()}}


def _rounded(value: float) -> float | int:
    return int(value) if abs(value) < _MAX_INTEGER and value == int(value) else float(f"{value:.{_DIGITS}g}")


def rank_rows(agents: Iterable[PodAgent], now: int) -> list[dict[str, Any]]:
    """Returns a row for the slowest rank of each pod and for each rank whose metrics a pod has reported, by rank.

    The format is that of `DataSource.ranks_seen`. `now` in ms.
    """
    ranks: dict[int, dict[str, Any]] = {}
    for agent in agents:
        slowest, telemetry, node = agent.slowest, agent.telemetry, agent.peer.node
        if slowest is not None and slowest.rank >= 0 and slowest.phase != START_PHASE:
            began, printed = now - round(slowest.in_phase_s * 1000), now - round(slowest.silent_s * 1000)
            position = {"step": slowest.step, "phase": slowest.phase, "at": began, "printed_at": printed}
            ranks[slowest.rank] = {"rank": slowest.rank, "node": node, **position}
        if telemetry is not None:
            row = ranks.setdefault(telemetry.rank, {"rank": telemetry.rank, "node": node, "printed_at": None})
            row.update(values=dict(telemetry.values), reported_step=telemetry.step)
    return [ranks[number] for number in sorted(ranks)]


def stored_rank_rows(training: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the row of `rank_rows` for rank 0 from `status.training`, for a gang without connected agents."""
    values = {metric: training[name] for metric, name in _NAMES.items() if name in training}
    if not values or "step" not in training:
        return []
    return [{"rank": 0, "printed_at": None, "reported_step": training["step"], "values": values}]
