"""Dependencies between jobs: the events that follow from the end of a job for those that wait for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

from windlass.core.lifecycle.events import DependencyEnded
from windlass.core.model.job import Condition, Dependency
from windlass.core.model.status import TERMINAL, JobState, Phase


class Dependencies:
    """The jobs that wait for each job that has not ended. `states`: the jobs that the controller knows."""

    def __init__(self, states: Mapping[str, JobState]) -> None:
        self._states = states
        self._dependents: defaultdict[str, set[str]] = defaultdict(set)

    def settle(self, state: JobState, find_ended: Callable[[str], JobState | None]) -> list[DependencyEnded]:
        """Registers the job with dependencies that have not ended; returns an event for each that has.

        `find_ended` looks up a job that the controller does not know.
        """
        events: list[DependencyEnded] = []
        waits_for = set(state.status.waits_for)
        for dependency in state.job.after:
            if dependency.job_id not in waits_for:
                continue
            other = self._states.get(dependency.job_id)
            if other is not None and other.status.phase not in TERMINAL:
                if _has_started(other) and _waits_for_start(state, other.id):
                    events.append(DependencyEnded(other.id, satisfied=True))
                else:
                    self._dependents[dependency.job_id].add(state.id)
                continue
            ended = other or find_ended(dependency.job_id)
            events.append(_end_of(ended, dependency) if ended else DependencyEnded(dependency.job_id, satisfied=False))
        return events

    def start(self, started: JobState) -> list[tuple[str, DependencyEnded]]:
        """The events for the jobs that wait for no more than the start of this one, which has just started."""
        waiting = [self._states[name] for name in sorted(self._dependents.get(started.id, ())) if name in self._states]
        return [
            (state.id, DependencyEnded(started.id, satisfied=True))
            for state in waiting
            if _waits_for_start(state, started.id)
        ]

    def end(self, ended: JobState) -> list[tuple[str, DependencyEnded]]:
        """The events for the jobs that wait for this one, which has just ended."""
        dependents = self._dependents.pop(ended.id, set())
        waiting = [self._states[name] for name in sorted(dependents) if name in self._states]
        return [
            (state.id, _end_of(ended, dependency))
            for state in waiting
            for dependency in state.job.after
            if dependency.job_id == ended.id
        ]


def _end_of(state: JobState, dependency: Dependency) -> DependencyEnded:
    has_succeeded = state.status.phase is Phase.SUCCEEDED
    ok = {Condition.SUCCEEDED: has_succeeded, Condition.MATCHING: has_succeeded, Condition.FAILED: not has_succeeded}
    return DependencyEnded(state.id, satisfied=ok.get(dependency.condition, True))


def _waits_for_start(state: JobState, job_id: str) -> bool:
    """Whether a job waits for the start of another one, and for no end of it."""
    wanted = [dependency.condition for dependency in state.job.after if dependency.job_id == job_id]
    return bool(wanted) and all(each is Condition.STARTED for each in wanted)


def _has_started(state: JobState) -> bool:
    return state.status.started_at is not None
