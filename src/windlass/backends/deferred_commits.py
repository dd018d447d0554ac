"""Holds back the changes of single jobs that a backend could not commit, and retries them with exponential backoff.

A backend reports such jobs from `commit`, each with a reason; everything else of the turn is durable then. What the
controller decides about a deferred job meanwhile is added to what is held back, so that the retry writes its latest
state. Its commands are performed after the retry has succeeded. A new launch is cancelled instead of retried
(its job would hold nodes meanwhile), and the controller queues the job again. A repeated launch is retried. All other
jobs go on. No I/O; times are ms.

A turn costs time in proportion to its own size, and not to the number of deferred jobs. The controller waits for each
retry, so retries that fail slowly are followed by a pause: they take at most a tenth of its time, or 3 s in each 30 s.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from itertools import chain
from typing import TypeVar
from zlib import crc32

from windlass.backends.port import Changes, JobEvent
from windlass.core.lifecycle.commands import Command, Launch, Stop
from windlass.core.lifecycle.events import NotLaunched
from windlass.core.model.status import JobState
from windlass.wire import exponential_backoff

T = TypeVar("T")
INITIAL_BACKOFF_MS = 1_000
MAX_BACKOFF_MS = 60_000
RETRIES_AT_ONCE = 64
"""Maximum number of jobs that are retried with one turn; those that are due for longest come first."""
_PAUSE_FACTOR = 9
"""Length of the pause after retries that failed, in lengths of the commit that contained them."""
_LONGEST_PAUSE_MS = 30_000


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
        self._retried: Collection[str] = ()
        """The jobs that the last turn retries."""
        self._selected_at = 0
        self._paused_until = 0

    def select(self, changes: Changes, now: int) -> Changes:
        """The changes to commit now: without the deferred jobs, except those whose retry is due."""
        self._retried, self._selected_at = self._find_due(now), now
        if not self._deferred:
            return changes
        selected, parts = _split(changes, self._deferred.keys())
        for job_id, part in parts.items():
            deferral = self._deferred[job_id]
            more = part if job_id in self._retried else self._withhold_launches(part)
            deferral.changes = _join(deferral.changes, more)
        return _concatenate([selected, *(self._deferred[job_id].changes for job_id in self._retried)])

    def settle(self, selected: Changes, failures: Mapping[str, str], now: int) -> Sequence[Command]:
        """Takes note of a commit: of `selected`, the jobs in `failures` could not be written, for the reason given.

        Returns the commands of all other jobs, to be performed.
        """
        if not (failures or self._deferred):
            return selected.commands
        for job_id in [state.id for state in selected.states] + list(selected.forgotten):
            if job_id not in failures:
                self._deferred.pop(job_id, None)
        durable, parts = _split(selected, failures.keys())
        for job_id, reason in failures.items():
            self._defer(job_id, reason, parts.get(job_id, Changes()), now)
        if not failures.keys().isdisjoint(self._retried):
            pause = min(_PAUSE_FACTOR * (now - self._selected_at), _LONGEST_PAUSE_MS)
            self._paused_until = now + pause
        return durable.commands

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
        first = min((deferral.due for deferral in self._deferred.values()), default=None)
        return None if first is None else max(first, self._paused_until)

    def _find_due(self, now: int) -> Collection[str]:
        if now < self._paused_until:
            return ()
        due = ((deferral.due, job_id) for job_id, deferral in self._deferred.items() if deferral.due <= now)
        return dict.fromkeys(job_id for _, job_id in nsmallest(RETRIES_AT_ONCE, due))

    def _defer(self, job_id: str, reason: str, changes: Changes, now: int) -> None:
        deferral = self._deferred.setdefault(job_id, _Deferral())
        deferral.changes = self._withhold_launches(changes)
        if deferral.reason != reason:
            self._on_trouble(f"the state of {job_id} could not be written, and the job waits for that: {reason}")
        wait = retry_wait(job_id, deferral.failures)
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


def retry_wait(job_id: str, failures: int) -> int:
    """Wait in ms before the next retry, after this number of earlier failures in a row.

    It doubles, and is shortened by up to a quarter, which depends on the job: jobs that failed together spread.
    """
    wait = exponential_backoff(failures, INITIAL_BACKOFF_MS, MAX_BACKOFF_MS)
    return wait - crc32(job_id.encode()) % (wait // 4)


def committed(changes: Changes, failures: Mapping[str, str]) -> Changes:
    """The part of a turn that became durable."""
    return _split(changes, failures.keys())[0] if failures else changes


def _split(changes: Changes, jobs: Collection[str]) -> tuple[Changes, Mapping[str, Changes]]:
    """The changes without these jobs, and the changes of each of them, in one pass."""
    states, left_states = _group(((each.id, each) for each in changes.states), jobs)
    transitions, left_transitions = _group(((each.job_id, each) for each in changes.transitions), jobs)
    forgotten, left_forgotten = _group(((job_id, job_id) for job_id in changes.forgotten), jobs)
    commands, left_commands = _group(((each.job_id, each) for each in changes.commands), jobs)
    parts = {
        job_id: Changes(
            tuple(states.get(job_id, ())),
            tuple(transitions.get(job_id, ())),
            tuple(forgotten.get(job_id, ())),
            tuple(commands.get(job_id, ())),
        )
        for job_id in {**states, **transitions, **forgotten, **commands}
    }
    left = Changes(
        tuple(left_states), tuple(left_transitions), tuple(left_forgotten), tuple(left_commands), changes.past_usage
    )
    return left, parts


def _group(items: Iterable[tuple[str, T]], jobs: Collection[str]) -> tuple[Mapping[str, list[T]], list[T]]:
    """The items of these jobs by job, and all others."""
    groups: defaultdict[str, list[T]] = defaultdict(list)
    others: list[T] = []
    for job_id, item in items:
        (groups[job_id] if job_id in jobs else others).append(item)
    return groups, others


def _concatenate(parts: Sequence[Changes]) -> Changes:
    """All parts, each of other jobs, in this order, with the usage of the first."""
    return Changes(
        states=tuple(chain.from_iterable(each.states for each in parts)),
        transitions=tuple(chain.from_iterable(each.transitions for each in parts)),
        forgotten=tuple(chain.from_iterable(each.forgotten for each in parts)),
        commands=tuple(chain.from_iterable(each.commands for each in parts)),
        past_usage=parts[0].past_usage,
    )


def _join(first: Changes, then: Changes) -> Changes:
    """Two turns of one job: its latest state, and no start that is stopped again."""
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
