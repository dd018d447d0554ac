"""Causes of a slow job by the times of its ranks' phases: those of `windlass doctor slow` that matter. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.diagnose.slow.analysis import analyze_slowness
from windlass.diagnose.slow.rank_times import read_ranks
from windlass.diagnose.steps import State

Json = dict[str, Any]
_SHOWN = (State.WARNING, State.WRONG)
_MAX_EVIDENCE = 8


def slowness(details: Mapping[str, Any]) -> list[Json]:
    """Causes with their part of the run (`share`, 0 to 1), the largest first; none if no rank reports its phases.

    `details`: all details of a job.
    """
    ranks = read_ranks((details.get("progress") or {}).get("ranks", ()))
    if not ranks:
        return []
    steps = analyze_slowness(ranks, len(details["progress"]["ranks"]))
    return [
        {"name": step.name, "share": step.share, "text": step.text, "fix": step.fix}
        | {"evidence": list(step.evidence)[:_MAX_EVIDENCE]}
        for step in steps
        if step.state in _SHOWN
    ]
