"""Finds the rank that the others wait for by the heartbeats of `windlass.train`: the last one, if it stopped."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from windlass.diagnose.flight.findings import HangFinding

MIN_STOP_MS = 30_000
"""Shortest time without a heartbeat of any rank that counts as a stop."""
_STEP_ORDER = ("data", "forward", "backward", "pipeline", "agree", "optimizer", "save", "evaluate")
"""Phases of a step in their order."""
_RULES = {"data": "heartbeat-rank-in-data", "save": "heartbeat-rank-in-save"}
_OTHER_RULE = "heartbeat-rank-behind"
_MAX_PLACES = 3


@dataclass(frozen=True, slots=True)
class RankStatus:
    """Newest heartbeat of one rank."""

    rank: int
    step: int
    phase: str
    at_ms: int
    """Time of the heartbeat, in milliseconds since the epoch."""
    source: str
    """Path of the rank status file."""
    code: int | None = None
    """Exit code; absent while it runs."""


def find_last_rank(ranks: Sequence[RankStatus], until_ms: int, suspects: Collection[int] = ()) -> HangFinding | None:
    """Returns the rank that the others wait for, if no rank has gone on for a while at `until_ms`.

    It is the only one that is behind all others or, in a phase of the host, a suspect of the flight recorders.
    """
    is_over = any(each.code == 0 for each in ranks)
    if is_over or until_ms - max((each.at_ms for each in ranks), default=until_ms) < MIN_STOP_MS:
        return None
    by_progress = sorted(ranks, key=_progress)
    is_alone = len(ranks) == 1 or _progress(by_progress[0]) == _progress(by_progress[1])
    last = None if is_alone else by_progress[0]
    stopped = next((each for each in ranks if each.rank in suspects and each.phase in _RULES), last)
    return _describe(stopped, [each for each in by_progress if each is not stopped], until_ms) if stopped else None


def _describe(last: RankStatus, others: Sequence[RankStatus], until_ms: int) -> HangFinding:
    places = list(dict.fromkeys(f"{each.phase} of step {each.step}" for each in reversed(others)))
    values = {
        "phase": last.phase,
        "step": str(last.step),
        "seconds": str((until_ms - last.at_ms) // 1000),
        "others": ", ".join(places[:_MAX_PLACES]) or "none known",
    }
    text = (
        f"heartbeats: rank {last.rank} is in {last.phase} of step {last.step} for {values['seconds']} s; "
        f"other ranks: {values['others']}"
    )
    waiting = tuple(sorted(each.rank for each in others))
    rule = _RULES.get(last.phase, _OTHER_RULE)
    return HangFinding(rule, text, values, (last.rank,), waiting, last.source, last.at_ms * 1_000_000)


def step_position(step: int, phase: str) -> tuple[int, int]:
    """Returns a sort key of places in a run. A phase that is no part of a step, such as `outside`, comes before it."""
    return step, _STEP_ORDER.index(phase) if phase in _STEP_ORDER else -1


def _progress(status: RankStatus) -> tuple[int, int]:
    return step_position(status.step, status.phase)
