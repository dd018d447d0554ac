"""Times of the phases of every rank, as parts of its run, from the telemetry of a job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_TOTAL, _PREFIX, _SUFFIX = "total_ms", "total_", "_ms"
OUTSIDE = "outside"
"""Part of the run that no phase covers: the script's own code between the calls of `windlass.train`."""


@dataclass(frozen=True, slots=True)
class RankTimes:
    """One rank. `parts`: phase → part of the time since its first step, from 0 to 1; together they are 1.

    `clock`, `max_clock`: of its GPU in MHz, None without values; `is_slowed`: heat or power lowers its clock.
    """

    rank: int
    node: str
    seconds: float
    parts: Mapping[str, float]
    step_ms: float | None = None
    clock: float | None = None
    max_clock: float | None = None
    is_slowed: bool = False

    def part(self, *phases: str) -> float:
        """Returns the part of the run in these phases."""
        return sum(self.parts.get(phase, 0.0) for phase in phases)


def read_ranks(ranks: Sequence[Mapping[str, Any]]) -> tuple[RankTimes, ...]:
    """Returns the ranks that report the times of their phases, from `progress.ranks` of a job's details."""
    found = (_read_rank(rank) for rank in ranks)
    return tuple(sorted((rank for rank in found if rank), key=lambda rank: rank.rank))


def _read_rank(rank: Mapping[str, Any]) -> RankTimes | None:
    values = rank.get("values") or {}
    total = values.get(_TOTAL) or 0.0
    if total <= 0:
        return None
    parts = {phase: spent / total for phase, spent in _phases(values)}
    covered = sum(parts.values())
    if covered > 1:  # phases of a GPU are measured later than the clock of the host
        parts = {phase: part / covered for phase, part in parts.items()}
    return RankTimes(
        int(rank["rank"]),
        str(rank.get("node") or ""),
        total / 1000,
        {**parts, OUTSIDE: max(0.0, 1 - covered)},
        values.get("step_ms"),
        values.get("gpu_sm_clock"),
        values.get("gpu_max_sm_clock"),
        bool(values.get("gpu_slowdown")),
    )


def _phases(values: Mapping[str, float]) -> Iterable[tuple[str, float]]:
    for name, spent in values.items():
        if name.startswith(_PREFIX) and name.endswith(_SUFFIX) and name != _TOTAL:
            yield name.removeprefix(_PREFIX).removesuffix(_SUFFIX), spent
