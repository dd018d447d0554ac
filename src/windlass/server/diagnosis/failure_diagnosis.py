"""Diagnoses failed attempts by itself: after the commit of a failure, beside the controller's loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

from windlass.backends.port import Changes, JobEvent
from windlass.controller.observer import Observer
from windlass.core.lifecycle.events import Diagnosed
from windlass.core.lifecycle.failure import needs_diagnosis
from windlass.core.model.diagnosed_cause import DiagnosedCause
from windlass.core.model.job import VerdictUse
from windlass.core.model.status import JobState
from windlass.server.diagnosis.attempt_verdict import failed_diagnosis

_MAX_WAITING = 1_000
"""Diagnoses that wait for their turn; of more failures at a time, the oldest get no verdict of their own."""


class FailureDiagnosis(Observer):
    """Starts a diagnosis for each attempt that fails, `at_once` at a time: first those whose restart waits for it.

    `report` receives the event with the verdict. `diagnose` gathers the evidence of an attempt and returns the verdict;
    whatever it raises becomes the verdict's text: the end of the job is not touched.
    """

    def __init__(
        self,
        diagnose: Callable[[JobState], Awaitable[DiagnosedCause]],
        report: Callable[[JobEvent], object],
        at_once: int = 2,
    ) -> None:
        self._diagnose, self._report, self._at_once = diagnose, report, at_once
        self._waiting: dict[tuple[str, int], JobState] = {}
        self._running: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._told: dict[tuple[str, int], None] = {}
        """Diagnosed attempts whose verdict may not be committed yet."""

    def on_commit_end(self, changes: Changes) -> None:
        """Notes the attempts that have failed in a turn."""
        self.add(changes.states)

    def add(self, states: Iterable[JobState]) -> None:
        """Notes the attempts among these whose diagnosis is missing."""
        for state in states:
            key = (state.id, state.status.failed_generation)
            if needs_diagnosis(state.status) and key not in self._running and key not in self._told:
                self._waiting[key] = state
        while len(self._waiting) > _MAX_WAITING:
            state = self._waiting.pop(next(iter(self._waiting)))
            self._tell(
                state, failed_diagnosis(state.status.failed_generation, f"more than {_MAX_WAITING} failures at a time")
            )
        self._start()

    async def close(self) -> None:
        """Ends the diagnoses under way; the next controller starts them again."""
        self._waiting.clear()
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self) -> None:
        while self._waiting and len(self._running) < self._at_once:
            first = next(iter(self._waiting))
            key = next((key for key, state in self._waiting.items() if _is_waited_for(state)), first)
            task = asyncio.get_running_loop().create_task(self._run(self._waiting.pop(key)))
            self._running[key] = task
            task.add_done_callback(partial(self._end, key))

    def _end(self, key: tuple[str, int], _task: asyncio.Task[None]) -> None:
        del self._running[key]
        self._start()

    async def _run(self, state: JobState) -> None:
        try:
            cause = await self._diagnose(state)
        except Exception as error:  # noqa: BLE001 - a job's evidence must not end the controller
            cause = failed_diagnosis(state.status.failed_generation, str(error) or type(error).__name__)
        self._tell(state, cause)

    def _tell(self, state: JobState, cause: DiagnosedCause) -> None:
        self._told[state.id, cause.generation] = None
        while len(self._told) > _MAX_WAITING:
            del self._told[next(iter(self._told))]
        self._report(JobEvent(state.id, Diagnosed(cause)))


def _is_waited_for(state: JobState) -> bool:
    return state.job.restart.verdict is VerdictUse.ACT
