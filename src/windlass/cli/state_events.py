"""Events of a job from states of it that were read one after the other, in the form of a daemon's events."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from windlass.core.model.status import JobState, Phase

Json = dict[str, Any]
_STARTED = (Phase.ADMITTED, Phase.RUNNING, Phase.SUCCEEDED, Phase.FAILED)


@dataclass(slots=True)
class ReportedState:
    """The last state of a job for which events were emitted."""

    phase: Phase = Phase.CREATED
    generation: int = 0
    ended: bool = False
    verdict: tuple[object, object] = ("", 0)
    """Reason and queue position of the last "verdict" event."""
    diagnosed: int = 0
    """The newest attempt whose verdict was emitted."""
    wait_verdict: str = ""
    """The last emitted verdict on what the job waits for."""


def new_events(reported: ReportedState, state: JobState) -> Iterator[Json]:
    """Yields the transitions from the reported to the current state, including intermediate ones that were missed."""
    status = state.status
    before = reported.phase
    if status.generation > reported.generation and status.phase in _STARTED:
        if reported.generation and before is not Phase.RESTARTING:
            lost = status.last_failure.message if status.last_failure else status.message
            yield state_transition(state, before, Phase.RESTARTING, lost)
        reported.generation = status.generation
        yield state_transition(state, Phase.QUEUED, Phase.ADMITTED, status.message)
        before = Phase.ADMITTED
    if status.phase is not before:
        yield state_transition(state, before, status.phase, status.message)
    reported.phase = status.phase


def state_transition(state: JobState, before: Phase, after: Phase, message: str) -> Json:
    """Returns the event of a change of phase."""
    at = state.status.admitted_at if after is Phase.ADMITTED else None
    change = {"before": before.value, "after": after.value, "message": message}
    return {"type": "transition", "job_id": state.id, "at": at or int(time.time() * 1000), **change}
