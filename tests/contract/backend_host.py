"""The parts of a backend that the contract's tests use: opening, end of the controller, and programs to run."""

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
    """Commands of replicas, each one word, as lint demands of the name of a program."""

    SUCCEED = "succeeds-at-once"
    FAIL = "ends-with-exit-code-3"
    RUN = "runs-until-SIGTERM"
    STUBBORN = "runs-until-SIGKILL"
    UNSTARTABLE = "no-such-program"


class BackendHost(Protocol):
    """The state of a backend that outlives its controllers."""

    nodes: Sequence[str]

    async def open(self) -> Backend:
        """Returns a backend for a new controller; `recover` has not been called."""

    async def abandon(self, backend: Backend) -> None:
        """Ends the controller of a backend like SIGKILL."""

    def job(self, behaviour: Behaviour, replicas: int = 1) -> Job: ...

    async def register(self, backend: Backend, job: Job, number: int) -> tuple[str, Job]:
        """Makes a job known to a backend, before its state is committed. Returns its id, and the job as read."""

    async def end_scenario(self) -> None:
        """Ends what runs in the scenario's event loop."""

    def close(self) -> None:
        """Ends the test: no process may be left."""


def run_scenario(host: BackendHost, scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs a scenario to its end."""

    async def run() -> None:
        try:
            await scenario()
        finally:
            await host.end_scenario()

    asyncio.run(run())


class ManualController:
    """A minimal controller of one job, stepped by the test."""

    def __init__(self, host: BackendHost, backend: Backend, state: JobState | None = None) -> None:
        self.host = host
        self.backend = backend
        self.state = state
        self.events: list[Event] = []

    @property
    def job_id(self) -> str:
        assert self.state is not None
        return self.state.id

    async def admit(self, job: Job, nodes: Sequence[str]) -> Sequence[Command]:
        """Commits the job as admitted to these nodes, one replica each. Returns the commands, not performed."""
        job_id, job = await self.host.register(self.backend, job, 1)
        self.state = create_state(job_id, 1, job, self.backend.now())
        placement = Placement({job.roles[0].name: tuple(nodes)})
        return [command for event in (Submitted(), Admit(placement)) for command in await self.turn(event)]

    async def turn(self, *events: Event) -> Sequence[Command]:
        """Commits the state after these events. Returns the commands, not performed."""
        assert self.state is not None
        commands: list[Command] = []
        for event in events:
            self.state, more = state_machine.step(self.state, event, self.backend.now())
            commands += more
        await self.backend.commit(Changes(states=(self.state,), commands=tuple(commands)))
        return commands

    async def perform(self, *events: Event) -> None:
        """Commits the state after these events and performs the commands."""
        self.backend.perform(await self.turn(*events))

    async def until(self, found: Callable[[list[Event]], Found]) -> Found:
        """Waits, without a commit, until the received events satisfy `found`."""
        give_up = self.backend.now() + int(strays.TIMEOUT_S * 1000)
        while not (answer := found(self.events)):
            assert self.backend.now() < give_up, f"received only {self.events}"
            events = await self.backend.wait(give_up)
            self.events += [event.event for event in events if isinstance(event, JobEvent)]
        return answer

    async def collect(self, quiet: int = 200) -> list[Event]:
        """Returns all events, once none has come for `quiet` ms."""
        while events := await self.backend.wait(self.backend.now() + quiet):
            self.events += [event.event for event in events if isinstance(event, JobEvent)]
        return self.events
