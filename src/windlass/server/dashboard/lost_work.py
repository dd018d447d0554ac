"""Work that each failure of a job has cost: the steps after the state from which it went on. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
_RUNNING = {"Admitted", "Running"}
_ENDS = {"Failed", "Restarting", "Queued", "Suspended"}
_RECOVERED = "Recovered"
_STOPS = {"Cancelled", "Suspended", "Preempted"}
"""Reasons, with which the texts of transitions begin."""


@dataclass(frozen=True, slots=True)
class StepRecord:
    """Recorded steps of a job: `steps[i]` was the last step at `times[i]` (ms)."""

    times: Sequence[int] = ()
    steps: Sequence[float | None] = ()

    def until(self, at: int, step: float) -> StepRecord:
        """The record with the last step of ranks that have ended; telemetry has it only every few seconds."""
        return StepRecord([*self.times, at], [*self.steps, step])

    def last_before(self, at: int) -> float | None:
        """The step at a time."""
        return next((s for s in reversed(self.steps[: bisect_right(self.times, at)]) if s is not None), None)

    def first_after(self, at: int) -> float | None:
        """The first step that was recorded after a time."""
        return next((s for s in self.steps[bisect_right(self.times, at) :] if s is not None), None)

    def reached(self, step: float, before: int) -> int | None:
        """Last time before `before` at which the job had made at most `step` steps."""
        found = [t for t, s in zip(self.times, self.steps, strict=True) if t <= before and s is not None and s <= step]
        return found[-1] if found else None


def losses(transitions: Iterable[Mapping[str, Any]], record: StepRecord, saved: Mapping[int, int] | None) -> list[Json]:
    """For each end of running ranks its time, text, and the lost `steps` and `time` (ms); None: unknown.

    `is_stop`: a user or the scheduler has stopped the job, and nothing has failed.
    `saved`: time (ms) by step of each complete checkpoint; None: unknown.
    """
    found: list[Json] = []
    began: int | None = None
    for each in transitions:
        if each["event"] == "Started":
            began = each["at"]
        if began is not None and _is_failure(each):
            steps, time = _loss(each["at"], began, record, saved)
            is_stop = each["message"].partition(":")[0] in _STOPS
            found.append({"at": each["at"], "text": each["message"], "steps": steps, "time": time, "is_stop": is_stop})
    return found


def _is_failure(transition: Mapping[str, Any]) -> bool:
    if transition["event"] == _RECOVERED:
        return True
    return transition["before"] in _RUNNING and transition["after"] in _ENDS


def _loss(at: int, began: int, record: StepRecord, saved: Mapping[int, int] | None) -> tuple[int | None, int | None]:
    """Steps and time between the state from which the job went on, or could go on, and the failure."""
    before, after = record.last_before(at), record.first_after(at)
    kept = max((step for step, time in (saved or {}).items() if time <= at), default=None)
    # 1. without recorded steps only the time since the last checkpoint is known
    if before is None:
        return None, None if saved is None else at - (began if kept is None else max(began, saved[kept]))
    # 2. ranks that went on with what they had in memory have lost nothing
    if after is not None and after >= before:
        return 0, 0
    # 3. otherwise they repeat, or would repeat, what came after the checkpoint
    if kept is None and after is None and saved is None:
        return None, None
    resumed = kept if kept is not None else after or 0
    reached = record.reached(resumed, at)
    return max(0, round(before - resumed)), at - (began if reached is None else reached)
