"""A controller on a local backend in the test's process: submits jobs and waits for their states."""

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
from windlass.backends.local.nodes import LocalCluster, Machine, declare_cluster
from windlass.backends.local.paths import StatePaths
from windlass.backends.local.state_store import SubmissionOrigin
from windlass.backends.port import JobArrived, JobEvent
from windlass.controller.controller import Controller, run
from windlass.core.lifecycle.events import Event
from windlass.core.model.job import Job, Role
from windlass.core.model.status import TERMINAL, JobState, Phase

MACHINE = Machine(cpu=4000, memory=2**33)
PATH_ONLY = {"PATH": os.environ["PATH"]}


def job(*command: str, replicas: int = 1, procs: int = 1, name: str = "job", **fields: Any) -> Job:
    """Returns a job of one role that requests one slot per replica."""
    role = Role(replicas=replicas, procs=procs, resources={"gpu": 1}, command=command)
    return Job(name, (role,), **{"workdir": "/", "grace": 5_000, **fields})


def two_nodes(gpus: int = 2) -> LocalCluster:
    return declare_cluster(MACHINE, 2, gpus)


def move_aside(paths: StatePaths) -> Path:
    """Moves the database away, as its error message tells the user to. Returns its new path."""
    target = paths.database.with_name("windlass.db.damaged")
    for suffix in ("", "-wal", "-shm"):
        part = Path(f"{paths.database}{suffix}")
        if part.exists():
            part.rename(f"{target}{suffix}")
    return target


async def await_condition(condition: Callable[[], object], failure: str) -> None:
    """Waits for a condition; fails with this text after a timeout."""
    until = time.monotonic() + strays.TIMEOUT_S
    while not condition():
        assert time.monotonic() < until, failure
        await asyncio.sleep(0.005)


class RunningController:
    """A running controller, made by `run_controller`. `troubles`: its messages for people."""

    def __init__(self, backend: LocalBackend, controller: Controller, troubles: list[str]) -> None:
        self.backend = backend
        self.controller = controller
        self.troubles = troubles

    async def submit(self, job: Job, origin: SubmissionOrigin | None = None) -> str:
        """Submits a job; returns its id once the submission is durable."""
        number = self.backend.reserve()
        job_id = f"{job.name}-{number}"
        await self.backend.inject(JobArrived(job_id, number, job), origin)
        return job_id

    async def inject(self, job_id: str, event: Event) -> None:
        await self.backend.inject(JobEvent(job_id, event))

    def state(self, job_id: str) -> JobState | None:
        return self.backend.store.job(job_id)

    async def until(self, job_id: str, wanted: Callable[[JobState], bool]) -> JobState:
        """Waits until a job satisfies `wanted`, and returns it."""
        until = time.monotonic() + strays.TIMEOUT_S
        while (state := self.state(job_id)) is None or not wanted(state):
            assert time.monotonic() < until, f"still {state}"
            await asyncio.sleep(0.005)
        return state

    async def phase(self, job_id: str, *phases: Phase) -> JobState:
        return await self.until(job_id, lambda state: state.status.phase in phases)

    async def end(self, job_id: str) -> JobState:
        return await self.phase(job_id, *TERMINAL)

    async def first_trouble(self) -> str:
        """Waits for the first message for people, and returns it."""
        await await_condition(lambda: self.troubles, "no message for people")
        return self.troubles[0]

    async def until_gone(self, job_id: str) -> None:
        """Waits until the record of a job is deleted."""
        await await_condition(lambda: self.state(job_id) is None, "its record still exists")

    def printed(self, job_id: str, generation: int = 1, ranks: Iterable[int] | None = None) -> list[str]:
        """Returns the output of these ranks up to now, in order of time."""
        files = logs.log_files(self.backend.paths, job_id, generation, ranks=ranks, streams=("out",))
        return [line.text for line in logs.read_lines(files)]

    async def lines(self, job_id: str, count: int, generation: int = 1) -> list[str]:
        """Waits until a job has printed this many lines, and returns them."""
        await await_condition(lambda: len(self.printed(job_id, generation)) >= count, "fewer lines than expected")
        return self.printed(job_id, generation)


@asynccontextmanager
async def run_controller(
    state: Path, cluster: LocalCluster | None = None, *, end: bool = True, **options: Any
) -> AsyncIterator[RunningController]:
    """Runs a controller during the block. `end`: the supervisor ends with it."""
    troubles: list[str] = []
    options = {"kind": "up", "environment": PATH_ONLY, **options}
    backend = LocalBackend(state, cluster or two_nodes(), on_trouble=troubles.append, **options)
    try:
        controller = Controller(backend.recover(), backend.finished)
        running = asyncio.create_task(run(controller, backend, on_trouble=troubles.append))
        yield RunningController(backend, controller, troubles)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
    finally:
        backend.close(end=end)
