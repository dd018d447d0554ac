"""Training progress of a job, summarized from its ranks. Pure; the same for every backend."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from windlass.diagnose.flight.heartbeats import step_position

Json = dict[str, Any]

_MS = "_ms"
_OF_RANK = "rank_"
_LAST = f"{_OF_RANK}last_"
"""Prefix of the times of phases in which ranks may wait for each other, of a step of the last second."""
_BUSY, _WAIT = f"{_OF_RANK}busy_ms", f"{_OF_RANK}wait_ms"
_OUTSIDE = "outside"
_MIN_RANKS = 2
"""Minimum number of ranks, for one of them to be called slow."""
_OF_GPU = "gpu_"


def summarize_progress(ranks: Sequence[Mapping[str, Any]]) -> Json | None:
    """Summary of ranks as `DataSource.ranks_seen` returns them; None without ranks. Times in ms, dates since the epoch.

    `checkpoint_at`: newest good checkpoint, or the start. `heartbeat_at`, `printed_at`: latest of all ranks. `behind`:
    the rank that is furthest behind. Measurements that are not finite are left out: JSON has no notation for them.
    """
    if not ranks:
        return None
    first = next((at for at, rank in enumerate(ranks) if "loss" in rank.get("values", {})), None)
    ranks = [_finite(rank) for rank in ranks]
    lines = [_line(rank) for rank in _with_waits(ranks)]
    beating = [rank for rank in ranks if "at" in rank]
    report = ranks[first] if first is not None else {}
    values: Mapping[str, float] = report.get("values", {})
    step = max((rank["step"] for rank in beating), default=None)
    step = max(step or 0, report["reported_step"]) if report else step
    steps = int(values["steps"]) if values.get("steps") else None
    step_ms = values.get("step_ms")
    return {
        "step": step,
        "steps": steps,
        "loss": values.get("loss"),
        "step_ms": step_ms,
        "samples_per_second": values.get("samples_per_second"),
        "phases": _phases(values),
        "utilisation": values.get("utilisation"),
        "checkpoint_at": values.get("checkpoint_at"),
        "memory": max((m for rank in ranks if (m := _memory(rank)) is not None), default=None),
        "eta": None if steps is None or step_ms is None else int(max(0, steps - (step or 0)) * step_ms),
        "heartbeat_at": max((rank["at"] for rank in beating), default=None),
        "printed_at": max((rank["printed_at"] for rank in ranks if rank["printed_at"]), default=None),
        "behind": min(beating, key=_position)["rank"] if beating else None,
        "slow": find_slow_ranks(lines),
        "ranks": lines,
    }


def _position(rank: Mapping[str, Any]) -> tuple[int, int, int]:
    return *step_position(rank["step"], rank["phase"]), rank["at"]


def _finite(rank: Mapping[str, Any]) -> Mapping[str, Any]:
    values = rank.get("values", {})
    finite = {name: value for name, value in values.items() if isinstance(value, int | float) and math.isfinite(value)}
    return {**rank, "values": finite} if len(finite) < len(values) else rank


def find_slow_ranks(lines: Sequence[Mapping[str, Any]]) -> list[int]:
    """Ranks for which the others wait, by the judgement of `windlass doctor slow`. `lines`: of `progress`."""
    if len(lines) < _MIN_RANKS:
        return []
    from windlass.diagnose.slow.analysis import find_straggler  # noqa: PLC0415 - `run` with one rank does without
    from windlass.diagnose.slow.rank_times import read_ranks  # noqa: PLC0415

    straggler = find_straggler(read_ranks(lines))
    return [] if straggler is None else [rank.rank for rank in straggler.ranks]


def _with_waits(ranks: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The ranks, with the part of collectives that one spends above the fastest as waiting instead of as work."""
    least: dict[str, float] = {}
    for rank in ranks:
        for name, spent in rank.get("values", {}).items():
            if name.startswith(_LAST):
                least[name] = min(spent, least.get(name, spent))
    return [_with_wait(rank, least) for rank in ranks]


def _with_wait(rank: Mapping[str, Any], least: Mapping[str, float]) -> Mapping[str, Any]:
    values: Mapping[str, float] = rank.get("values", {})
    busy, wait = values.get(_BUSY), values.get(_WAIT)
    if busy is None or wait is None:
        return rank
    moved = min(busy, sum(values[name] - fastest for name, fastest in least.items() if name in values))
    return {**rank, "values": {**values, _BUSY: busy - moved, _WAIT: wait + moved}}


def _phases(values: Mapping[str, float]) -> dict[str, float]:
    """Durations of a step's phases on the first rank, in ms. `outside`: the rest of the step."""
    own = (name for name in values if name.endswith(_MS) and name != "step_ms" and not name.startswith(_OF_RANK))
    phases = {name.removesuffix(_MS): values[name] for name in own}
    rest = values.get("step_ms", 0.0) - sum(phases.values())
    return {**phases, _OUTSIDE: rest} if phases and rest > 0 else phases


def _memory(rank: Mapping[str, Any]) -> float | None:
    values = rank.get("values", {})
    return values.get(f"{_OF_RANK}memory", values.get("memory"))  # type: ignore[no-any-return]  # JSON numbers


def _line(rank: Mapping[str, Any]) -> Json:
    """One rank, with its own measurements without their prefix, and those of its GPU."""
    values = rank.get("values", {})
    own = {name.removeprefix(_OF_RANK): values[name] for name in values if name.startswith((_OF_RANK, _OF_GPU))}
    known = ("rank", "node", "pid", "code", "step", "phase", "at", "printed_at", "env")
    return {**{name: rank.get(name) for name in known}, "values": own}
