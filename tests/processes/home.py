"""A controller on a local world inside the test: jobs go in, their states are waited for."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import strays
from windlass.backends.local import logs
from windlass.backends.local.backend import LocalBackend
from windlass.backends.local.nodes import LocalCluster, Machine, declared_nodes
from windlass.backends.local.state_store import SubmissionOrigin
from windlass.backends.port import JobArrived, JobEvent
from windlass.controller import Controller, run
from windlass.core.lifecycle.events import Event
from windlass.core.model.job import Job, Role
from windlass.core.model.status import TERMINAL, JobState, Phase

MACHINE = Machine(cpu=4000, memory=2**33)
BARE = {"PATH": os.environ["PATH"]}


def job(*command: str, replicas: int = 1, procs: int = 1, name: str = "job", **fields: Any) -> Job:
    """A job of one role that asks for one slot a replica."""
    role = Role(replicas=replicas, procs=procs, resources={"gpu": 1}, command=command)
    return Job(name, (role,), **{"workdir": "/", "grace": 5_000, **fields})


def two_nodes(gpus: int = 2) -> LocalCluster:
    return declared_nodes(MACHINE, 2, gpus)


async def soon(condition: Callable[[], object], failure: str) -> None:
    """Wait for a condition; fail with this text when it does not come."""
    until = time.monotonic() + strays.PATIENCE
    while not condition():
        assert time.monotonic() < until, failure
        await asyncio.sleep(0.005)


class Home:
    """See `at_home`."""

    def __init__(self, world: LocalBackend, controller: Controller, troubles: list[str]) -> None:
        self.world = world
        self.controller = controller
        self.troubles = troubles

    async def submit(self, job: Job, origin: SubmissionOrigin | None = None) -> str:
        """Hand a job in; returns its id once that is durable."""
        number = self.world.reserve()
        job_id = f"{job.name}-{number}"
        await self.world.inject(JobArrived(job_id, number, job), origin)
        return job_id

    async def happen(self, job_id: str, event: Event) -> None:
        await self.world.inject(JobEvent(job_id, event))

    def state(self, job_id: str) -> JobState | None:
        return self.world.store.job(job_id)

    async def until(self, job_id: str, wanted: Callable[[JobState], bool]) -> JobState:
        """The job once it is as wanted."""
        until = time.monotonic() + strays.PATIENCE
        while (state := self.state(job_id)) is None or not wanted(state):
            assert time.monotonic() < until, f"still {state}"
            await asyncio.sleep(0.005)
        return state

    async def phase(self, job_id: str, *phases: Phase) -> JobState:
        return await self.until(job_id, lambda state: state.status.phase in phases)

    async def end(self, job_id: str) -> JobState:
        return await self.phase(job_id, *TERMINAL)

    async def trouble(self) -> str:
        """The first thing that people are told."""
        await soon(lambda: self.troubles, "no trouble came")
        return self.troubles[0]

    async def until_gone(self, job_id: str) -> None:
        """The job is not on record any more."""
        await soon(lambda: self.state(job_id) is None, "it is still on record")

    def printed(self, job_id: str, generation: int = 1, ranks: Iterable[int] | None = None) -> list[str]:
        """What these ranks have printed by now, in the order of time."""
        files = logs.log_files(self.world.paths, job_id, generation, ranks=ranks, streams=("out",))
        return [line.text for line in logs.read(files)]

    async def lines(self, job_id: str, count: int, generation: int = 1) -> list[str]:
        """The job's output once it has so many lines."""
        await soon(lambda: len(self.printed(job_id, generation)) >= count, "fewer lines than expected")
        return self.printed(job_id, generation)


@asynccontextmanager
async def at_home(
    state: Path, cluster: LocalCluster | None = None, *, end: bool = True, **options: Any
) -> AsyncIterator[Home]:
    """A controller that runs until the block is left; `end`: and takes the supervisor with it."""
    troubles: list[str] = []
    options = {"kind": "up", "environment": BARE, **options}
    world = LocalBackend(state, cluster or two_nodes(), on_trouble=troubles.append, **options)
    try:
        controller = Controller(world.recover(), world.finished)
        running = asyncio.create_task(run(controller, world, on_trouble=troubles.append))
        yield Home(world, controller, troubles)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
    finally:
        world.close(end=end)
