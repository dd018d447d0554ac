"""When each CronTrainingJob has its next turn: after its change, after the end of a run, and at its times."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Never

from windlass.backends.event_timeout import wait_for_event
from windlass.backends.kubernetes.client.object_cache import Change, Key
from windlass.backends.kubernetes.schedules.schedule_turn import TurnContext, take_turn
from windlass.backends.port import BackendError
from windlass.jobs.kubernetes.labels import SCHEDULE
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.schedules.cron_training_job import is_run_of
from windlass.jobs.kubernetes.status.conditions import conditions_of, end_of
from windlass.wire import exponential_backoff

_AT_ONCE, _OF_ONE_NAMESPACE = 16, 4
"""Schedules that have a turn at the same time, and those of one namespace: slow turns hold up no other tenant's."""
_LONGEST_SLEEP_S = 30.0
"""Timers stand still while a machine sleeps, so the clock is read again after this time."""
_BACKOFF_MS, _MAX_BACKOFF_MS = 1_000, 60_000
"""Milliseconds before a turn that failed is repeated; doubled with each failure up to the longest."""


class ScheduleRuns:
    """The schedules of a cluster. `say` receives messages about schedules that cannot be carried out."""

    def __init__(self, context: TurnContext, say: Callable[[str], None]) -> None:
        self._context, self._say = context, say
        self._due: dict[Key, int] = {}
        """Time of the next turn in ms, by namespace and name; a schedule without one waits for a change."""
        self._objects: dict[Key, Manifest] = {}
        self._versions: dict[Key, tuple[str, object]] = {}
        """Uid and generation of each schedule: a change of its status needs no turn."""
        self._failures: dict[Key, int] = {}
        self._told: dict[Key, str] = {}
        self._changed = asyncio.Event()
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._slots_of: dict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(_OF_ONE_NAMESPACE))
        self._in_turn: set[Key] = set()
        """Schedules whose turn waits for a slot or is taken."""

    def see(self, changes: Sequence[Change[dict[str, Any]]]) -> None:
        """Takes note of changes of schedules."""
        for change in changes:
            about = change.object["metadata"]
            key, version = (about["namespace"], about["name"]), (about["uid"], about.get("generation"))
            self._objects[key] = change.object
            if change.kind == "deleted":
                for kept in (self._objects, self._due, self._versions, self._failures, self._told):
                    kept.pop(key, None)
            elif self._versions.get(key) != version:
                self._versions[key] = version
                self._wake(key)

    def manifests(self) -> list[Manifest]:
        """Returns all schedules as they are known now, by namespace and name."""
        return [self._objects[key] for key in sorted(self._objects)]

    def namespaces(self) -> set[str]:
        """Returns the namespaces of all schedules."""
        return {namespace for namespace, _ in self._objects}

    def see_run(self, change: Change[dict[str, Any]]) -> None:
        """Takes note of a change of a TrainingJob: a run that is new, has ended or is gone concerns its schedule."""
        about = change.object["metadata"]
        name = (about.get("labels") or {}).get(SCHEDULE)
        key = (about.get("namespace"), name)
        if key not in self._versions or not is_run_of(change.object, self._versions[key][0]):
            return  # the label alone makes no run
        if change.kind != "modified" or end_of(conditions_of(change.object)):
            self._wake(key)

    async def run(self) -> Never:
        """Carries out all schedules until cancelled."""
        self._in_turn.clear()
        async with asyncio.TaskGroup() as turns:
            while True:
                self._changed.clear()
                for key in self._take_due():
                    turns.create_task(self._take_turn(key))
                await wait_for_event(self._changed, self._sleep_s())

    async def take_due_turns(self) -> None:
        """Gives each schedule that is due its turn. A fault of one schedule ends with that schedule."""
        await asyncio.gather(*(self._take_turn(key) for key in self._take_due()))

    def _take_due(self) -> list[Key]:
        """Takes the schedules that are due, but for those whose turn has not ended."""
        now = self._context.now()
        due = [key for key, at in self._due.items() if at <= now and key not in self._in_turn]
        for key in due:
            del self._due[key]
        self._in_turn.update(due)
        return due

    def _wake(self, key: Key) -> None:
        self._due[key] = 0
        self._changed.set()

    def _sleep_s(self) -> float:
        first = min((at for key, at in self._due.items() if key not in self._in_turn), default=None)
        if first is None:
            return _LONGEST_SLEEP_S
        return max(0.0, min(_LONGEST_SLEEP_S, (first - self._context.now()) / 1000))

    async def _take_turn(self, key: Key) -> None:
        try:
            async with self._slots_of[key[0]], self._slots:
                at = await take_turn(self._context, *key)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this schedule's
            at = self._context.now() + self._backoff(key, error)
        else:
            self._failures.pop(key, None)
            self._told.pop(key, None)
        finally:
            self._in_turn.discard(key)
        if at is not None and key in self._versions:
            self._due[key] = min(at, self._due.get(key, at))
        if key in self._due:
            self._changed.set()

    def _backoff(self, key: Key, error: Exception) -> int:
        """Milliseconds until the turn is repeated; the error is told once."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        text = str(error) if isinstance(error, BackendError) else f"{type(error).__name__}: {error}"
        if failures and self._told.get(key) != text:  # a conflict at the first try is another writer's change
            self._told[key] = text
            self._say(f"schedule {key[0]}/{key[1]} cannot be carried out now, and is tried again: {text}")
        return exponential_backoff(failures, _BACKOFF_MS, _MAX_BACKOFF_MS)
