"""How far a job's training is, from what is seen of its ranks. Pure; the same for every world."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

Json = dict[str, Any]

_SLOW = 1.2
"""Times the work of the rank in the middle."""
_FEW = 3
"""Ranks of which one cannot be said to be slower than the others."""
_MS = "_ms"
_OF_RANK = "rank_"


def summarize_progress(ranks: Sequence[Mapping[str, Any]]) -> Json | None:
    """Of ranks as `Facts.ranks_seen` has them; None if there are none. Times in ms, moments since the epoch.

    `heartbeat_at`, `printed_at`: of the last rank that did. `behind`: the rank that is furthest behind. Measurements
    that are no finite numbers are left out: JSON has no word for them.
    """
    if not ranks:
        return None
    first = next((at for at, rank in enumerate(ranks) if "loss" in rank.get("values", {})), None)
    ranks = [_finite(rank) for rank in ranks]
    beating = [rank for rank in ranks if "at" in rank]
    told = ranks[first] if first is not None else {}
    values: Mapping[str, float] = told.get("values", {})
    step = max((rank["step"] for rank in beating), default=None)
    step = max(step or 0, told["reported_step"]) if told else step
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
        "memory": max((m for rank in ranks if (m := _memory(rank)) is not None), default=None),
        "eta": None if steps is None or step_ms is None else int(max(0, steps - (step or 0)) * step_ms),
        "heartbeat_at": max((rank["at"] for rank in beating), default=None),
        "printed_at": max((rank["printed_at"] for rank in ranks if rank["printed_at"]), default=None),
        "behind": min(beating, key=lambda rank: (rank["step"], rank["at"]))["rank"] if beating else None,
        "slow": find_slow_ranks(ranks),
        "ranks": [_line(rank) for rank in ranks],
    }


def _finite(rank: Mapping[str, Any]) -> Mapping[str, Any]:
    values = rank.get("values", {})
    told = {name: value for name, value in values.items() if isinstance(value, int | float) and math.isfinite(value)}
    return {**rank, "values": told} if len(told) < len(values) else rank


def find_slow_ranks(ranks: Sequence[Mapping[str, Any]]) -> list[int]:
    """The ranks that others wait for: much more work a step than most have."""
    busy = {rank["rank"]: b for rank in ranks if (b := rank.get("values", {}).get(f"{_OF_RANK}busy_ms"))}
    if len(busy) < _FEW:
        return []
    middle = sorted(busy.values())[len(busy) // 2]  # `statistics` takes longer to load than a `run` has
    return [number for number, spent in busy.items() if spent > _SLOW * middle]


def _phases(values: Mapping[str, float]) -> dict[str, float]:
    """Of a step, on the first rank."""
    own = (name for name in values if name.endswith(_MS) and name != "step_ms" and not name.startswith(_OF_RANK))
    return {name.removesuffix(_MS): values[name] for name in own}


def _memory(rank: Mapping[str, Any]) -> float | None:
    values = rank.get("values", {})
    return values.get(f"{_OF_RANK}memory", values.get("memory"))  # type: ignore[no-any-return]  # JSON numbers


def _line(rank: Mapping[str, Any]) -> Json:
    """One rank: what is its own of what it measured has lost its prefix."""
    values = rank.get("values", {})
    own = {name.removeprefix(_OF_RANK): values[name] for name in values if name.startswith(_OF_RANK)}
    known = ("rank", "node", "pid", "code", "step", "phase", "at", "printed_at", "env")
    return {**{name: rank.get(name) for name in known}, "values": own}
