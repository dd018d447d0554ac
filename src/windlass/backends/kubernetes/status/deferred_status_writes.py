"""States that the API server does not take, whatever else their status says: a webhook or a policy is against it.

The job's own orders wait until its state is written; nobody else's do. Whoever takes over meanwhile knows the job as it
was written last, and nothing has been done for it since.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

from windlass.backends.errors import BackendError
from windlass.backends.kubernetes.client.api_errors import ApiError, Outcome
from windlass.core.lifecycle.commands import Command
from windlass.core.model.status import JobState

_AGAIN = 5.0
"""Seconds between two attempts."""


class DeferredStatusWrites:
    """`write` is how a state gets into its object, `perform` what its orders wait for, `wake` has `check` called."""

    def __init__(
        self,
        write: Callable[[JobState], Awaitable[None]],
        perform: Callable[[Sequence[Command]], None],
        wake: Callable[[], None],
        on_trouble: Callable[[str], None],
    ) -> None:
        self._write, self._perform, self._wake, self._on_trouble = write, perform, wake, on_trouble
        self._states: dict[str, JobState] = {}
        """The latest of each job."""
        self._orders: dict[str, list[Command]] = {}
        self._task: asyncio.Task[None] | None = None

    def get(self, job_id: str) -> JobState | None:
        """What is yet to be written of a job."""
        return self._states.get(job_id)

    async def write(self, state: JobState) -> None:
        """Now, or when the API server takes it. Raises WorldError if it cannot be asked, and what `write` raises."""
        if state.id in self._states:
            self._states[state.id] = state
            return
        try:
            await self._write(state)
        except ApiError as error:
            if error.outcome is not Outcome.REFUSED or error.is_unauthorized:
                raise
            self._states[state.id] = state
            self._on_trouble(f"the state of {state.id} is not taken, and the job waits for that: {error}")
            self._begin()

    def possible(self, commands: Iterable[Command]) -> Iterator[Command]:
        """Those whose job's state is written; the others follow once theirs is."""
        for command in commands:
            if command.job_id in self._states:
                self._orders.setdefault(command.job_id, []).append(command)
            else:
                yield command

    def check(self) -> None:
        """Raises what an attempt of the background has ended with."""
        if self._task is not None and self._task.done():
            self._task.result()

    async def close(self) -> None:
        """Leave the rest unwritten."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _begin(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._try_again())
            self._task.add_done_callback(lambda _: self._wake())

    async def _try_again(self) -> None:
        while self._states:
            await asyncio.sleep(_AGAIN)
            for trouble in await asyncio.gather(*map(self._try, list(self._states.values())), return_exceptions=True):
                if trouble is not None:
                    raise trouble

    async def _try(self, state: JobState) -> None:
        try:
            await self._write(state)
        except BackendError:
            return
        if self._states[state.id] is state:  # else a later one is to be written first
            del self._states[state.id]
            self._perform(self._orders.pop(state.id, []))
