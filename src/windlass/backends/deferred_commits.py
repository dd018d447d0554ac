"""Holds back the changes of single jobs that a backend could not commit, and retries them with exponential backoff.

A backend reports such jobs from `commit`, each with a reason; everything else of the turn is durable then. What the
controller decides about a deferred job meanwhile is added to what is held back, so that the retry writes its latest
state. Its commands are performed after the retry has succeeded. A launch is not held back but withdrawn, since the job
would hold its nodes meanwhile: the controller queues the job again. All other jobs go on. Pure; times are ms.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from windlass.backends.port import Changes, JobEvent
from windlass.core.lifecycle.commands import Command, Launch, Stop
from windlass.core.lifecycle.events import NotLaunched
from windlass.core.model.status import JobState

FIRST_RETRY_MS = 1_000
LAST_RETRY_MS = 60_000


@dataclass(slots=True)
class _Deferral:
    """The part of turns that is held back for one job."""

    changes: Changes = field(default_factory=Changes)
    reason: str = ""
    failures: int = 0
    due: int = 0


class DeferredCommits:
    """The jobs whose last commit failed. `on_trouble` receives the reason when a job is deferred or the reason changes.

    A turn is committed in three steps: `select` what may be committed now, commit it, `settle` the result.
    """

    def __init__(self, on_trouble: Callable[[str], None]) -> None:
        self._on_trouble = on_trouble
        self._deferred: dict[str, _Deferral] = {}
        self._withheld: list[Launch] = []

    def select(self, changes: Changes, now: int) -> Changes:
        """The changes to commit now: without the deferred jobs, except those whose retry is due."""
        if not self._deferred:
            return changes
        for job_id, deferral in self._deferred.items():
            more = _only(changes, {job_id})
            deferral.changes = _join(deferral.changes, more if deferral.due <= now else self._withhold_launches(more))
        selected = _without(changes, self._deferred.keys())
        for deferral in self._deferred.values():
            if deferral.due <= now:
                selected = _join(selected, deferral.changes)
        return selected

    def settle(self, selected: Changes, failures: Mapping[str, str], now: int) -> Sequence[Command]:
        """Takes note of a commit: of `selected`, the jobs in `failures` could not be written, for the reason given.

        Returns the commands of all other jobs, to be performed.
        """
        for job_id in [state.id for state in selected.states] + list(selected.forgotten):
            if job_id not in failures:
                self._deferred.pop(job_id, None)
        for job_id, reason in failures.items():
            self._defer(job_id, reason, _only(selected, {job_id}), now)
        return committed(selected, failures).commands

    def take_withheld_launches(self) -> list[JobEvent]:
        """The launches that were withdrawn since the last call, as events for the controller."""
        withheld, self._withheld = self._withheld, []
        return [JobEvent(each.job_id, NotLaunched(each.generation, self._explain(each.job_id))) for each in withheld]

    def state_of(self, job_id: str) -> JobState | None:
        """The latest state of a deferred job; None if the job is not deferred."""
        deferral = self._deferred.get(job_id)
        return next(iter(deferral.changes.states), None) if deferral else None

    @property
    def jobs(self) -> Collection[str]:
        """The deferred jobs."""
        return self._deferred.keys()

    @property
    def reasons(self) -> Mapping[str, str]:
        """By deferred job: why its last commit failed."""
        return {job_id: deferral.reason for job_id, deferral in self._deferred.items()}

    def next_due(self) -> int | None:
        """Time of the next retry."""
        return min((deferral.due for deferral in self._deferred.values()), default=None)

    def _defer(self, job_id: str, reason: str, changes: Changes, now: int) -> None:
        deferral = self._deferred.setdefault(job_id, _Deferral())
        deferral.changes = self._withhold_launches(changes)
        if deferral.reason != reason:
            self._on_trouble(f"the state of {job_id} could not be written, and the job waits for that: {reason}")
        wait = min(FIRST_RETRY_MS << min(deferral.failures, 30), LAST_RETRY_MS)
        deferral.reason, deferral.failures, deferral.due = reason, deferral.failures + 1, now + wait

    def _withhold_launches(self, changes: Changes) -> Changes:
        """The changes of one job without launches that no controller has performed."""
        launches = [each for each in changes.commands if isinstance(each, Launch) and not each.is_repeated]
        if not launches:
            return changes
        self._withheld += launches
        return replace(changes, commands=tuple(each for each in changes.commands if each not in launches))

    def _explain(self, job_id: str) -> str:
        deferral = self._deferred.get(job_id)
        return f"its state could not be written: {deferral.reason}" if deferral else ""


def committed(changes: Changes, failures: Mapping[str, str]) -> Changes:
    """The part of a turn that became durable."""
    return _without(changes, failures.keys()) if failures else changes


def _only(changes: Changes, jobs: Collection[str]) -> Changes:
    return _filter(changes, lambda job_id: job_id in jobs, {})


def _without(changes: Changes, jobs: Collection[str]) -> Changes:
    return _filter(changes, lambda job_id: job_id not in jobs, changes.past_usage)


def _filter(changes: Changes, wanted: Callable[[str], bool], past_usage: Mapping[str, Any]) -> Changes:
    return Changes(
        states=tuple(each for each in changes.states if wanted(each.id)),
        transitions=tuple(each for each in changes.transitions if wanted(each.job_id)),
        forgotten=tuple(job_id for job_id in changes.forgotten if wanted(job_id)),
        commands=tuple(each for each in changes.commands if wanted(each.job_id)),
        past_usage=past_usage,
    )


def _join(first: Changes, then: Changes) -> Changes:
    """Both, in this order: of each job its latest state, and no start that is stopped again."""
    commands = (*first.commands, *then.commands)
    stopped = {(stop.job_id, stop.generation) for stop in commands if isinstance(stop, Stop)}
    return replace(
        first,
        states=tuple({state.id: state for state in (*first.states, *then.states)}.values()),
        transitions=(*first.transitions, *then.transitions),
        forgotten=(*first.forgotten, *then.forgotten),
        commands=tuple(
            each for each in commands if not (isinstance(each, Launch) and (each.job_id, each.generation) in stopped)
        ),
    )
