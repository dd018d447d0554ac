"""What the contract's tests need of a world: to open it, to let its controller die, and programs to run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from enum import StrEnum
from typing import Any, Protocol, TypeVar

import strays
from windlass.backends.port import Backend, Changes, JobEvent
from windlass.core.lifecycle import state_machine
from windlass.core.lifecycle.commands import Command
from windlass.core.lifecycle.events import Admit, Event, Submitted
from windlass.core.lifecycle.transitions import create_state
from windlass.core.model.job import Job
from windlass.core.model.status import JobState, Placement

Found = TypeVar("Found")


class Behaviour(StrEnum):
    SUCCEED = "ends well at once"
    FAIL = "ends at once, with exit code 3"
    RUN = "runs until it is asked to end"
    STUBBORN = "runs, and ends only when it is killed"
    UNSTARTABLE = "names a program that does not exist"


class Place(Protocol):
    """Where a world keeps what outlives its controller."""

    nodes: Sequence[str]

    async def open(self) -> Backend:
        """A world with a new controller; `recover` has not been called."""

    async def abandon(self, backend: Backend) -> None:
        """The controller dies without a word."""

    def job(self, behaviour: Behaviour, replicas: int = 1) -> Job: ...

    async def hand_in(self, backend: Backend, job: Job, number: int) -> tuple[str, Job]:
        """What a world must know of a job before its state can be committed. Returns its id, and the job as read."""

    async def leave(self) -> None:
        """The end of a story: nothing of it stays in its loop."""

    def close(self) -> None:
        """The end of the test: nothing may be left running."""


def play(place: Place, story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a story to its end."""

    async def whole() -> None:
        try:
            await story()
        finally:
            await place.leave()

    asyncio.run(whole())


class Stagehand:
    """A controller small enough to be read: one job, stepped through its life by hand."""

    def __init__(self, place: Place, backend: Backend, state: JobState | None = None) -> None:
        self.place = place
        self.backend = backend
        self.state = state
        self.heard: list[Event] = []

    @property
    def job_id(self) -> str:
        assert self.state is not None
        return self.state.id

    async def admit(self, job: Job, nodes: Sequence[str]) -> Sequence[Command]:
        """Commit the job as admitted onto these nodes, one replica each. Returns the commands, unperformed."""
        job_id, job = await self.place.hand_in(self.backend, job, 1)
        self.state = create_state(job_id, 1, job, self.backend.now())
        placement = Placement({job.roles[0].name: tuple(nodes)})
        return [command for event in (Submitted(), Admit(placement)) for command in await self.turn(event)]

    async def turn(self, *events: Event) -> Sequence[Command]:
        """What the events make of the job, committed. Returns the commands, unperformed."""
        assert self.state is not None
        commands: list[Command] = []
        for event in events:
            self.state, more = state_machine.step(self.state, event, self.backend.now())
            commands += more
        await self.backend.commit(Changes(states=(self.state,), commands=tuple(commands)))
        return commands

    async def live(self, *events: Event) -> None:
        """A turn whose commands are performed."""
        self.backend.perform(await self.turn(*events))

    async def until(self, found: Callable[[list[Event]], Found]) -> Found:
        """Wait, without committing anything, until what was heard satisfies `found`."""
        give_up = self.backend.now() + int(strays.PATIENCE * 1000)
        while not (answer := found(self.heard)):
            assert self.backend.now() < give_up, f"heard only {self.heard}"
            events = await self.backend.wait(give_up)
            self.heard += [event.event for event in events if isinstance(event, JobEvent)]
        return answer

    async def settle(self, quiet: int = 200) -> list[Event]:
        """Everything heard until nothing comes any more for `quiet` ms."""
        while events := await self.backend.wait(self.backend.now() + quiet):
            self.heard += [event.event for event in events if isinstance(event, JobEvent)]
        return self.heard
