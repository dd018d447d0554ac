"""Time from the death of a rank until all others of its gang are gone; and CPU of the supervisor for a start."""

import asyncio
import contextlib
import functools
import json
import os
import select
import signal
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from windlass.backends.local.backend import LocalBackend
from windlass.backends.local.nodes import Machine, declare_cluster
from windlass.backends.port import JobArrived, JobEvent
from windlass.controller.controller import Controller, run
from windlass.core.lifecycle.events import Cancel
from windlass.core.model.job import Job, RestartPolicy, Role
from windlass.core.model.status import Phase

RANKS, ROUNDS, GANGS = 8, 20, 200
ENDS_ON_SIGTERM = ("sh", "-c", "exec sleep 1000")
IGNORES_SIGTERM = ("sh", "-c", "trap '' TERM; sleep 1000 & while :; do wait; done")
UNLIMITED_RESTARTS = RestartPolicy(infrastructure_limit=10_000, backoff_base=0, backoff_max=0)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        ending, ignoring, starts = asyncio.run(measure(Path(folder)))
    print(f"ranks that end on SIGTERM:                 {summary(ending)}")
    print(f"ranks that ignore SIGTERM, without grace:  {summary(ignoring)}")
    claim(f"death of a rank → the {RANKS - 1} others gone, worst of {ROUNDS}", max(ending + ignoring), 0.5, "s")
    claim("a start and an end of one rank, CPU of the supervisor", starts, 2.0, "ms")


async def measure(folder: Path) -> tuple[list[float], list[float], float]:
    async with running_controller(folder) as (backend, controller):
        ending = await deaths(backend, controller, job("ending", ENDS_ON_SIGTERM, grace=10_000))
        ignoring = await deaths(backend, controller, job("ignoring", IGNORES_SIGTERM, grace=0))
        return ending, ignoring, await cost_of_a_start(backend, folder)


@contextlib.asynccontextmanager
async def running_controller(folder: Path) -> AsyncIterator[tuple[LocalBackend, Controller]]:
    backend = LocalBackend(folder / "state", declare_cluster(Machine(8_000, 2**33), 2, 4), kind="run")
    controller = Controller(backend.recover(), backend.finished)
    running = asyncio.create_task(run(controller, backend, on_trouble=print))
    yield backend, controller
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    backend.close(end=True)


async def deaths(backend: LocalBackend, controller: Controller, asked: Job) -> list[float]:
    """Kill rank 3 of every generation; return the seconds until no other rank is left."""
    job_id = await submit(backend, asked)
    seconds: list[float] = []
    for generation in range(1, ROUNDS + 1):
        await until(functools.partial(is_running, controller, job_id, generation))
        pids = [task.pid or 0 for task in backend.store.tasks(job_id, generation)]
        await until(functools.partial(are_executing, pids))
        others = [os.pidfd_open(pid) for pid in pids if pid != pids[3]]
        begin = time.monotonic()
        os.kill(pids[3], signal.SIGKILL)
        await asyncio.to_thread(wait_for_ends, others)
        seconds.append(time.monotonic() - begin)
    await backend.inject(JobEvent(job_id, Cancel()))
    return seconds


def are_executing(pids: list[int]) -> bool:
    """Whether every rank executes its program."""
    return all(Path(f"/proc/{pid}/comm").read_text().strip() in {"sh", "sleep"} for pid in pids)


def is_running(controller: Controller, job_id: str, generation: int) -> bool:
    state = controller.states[job_id]
    return state.status.phase is Phase.RUNNING and state.status.generation == generation


def wait_for_ends(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        select.select([descriptor], [], [])
        os.close(descriptor)


async def cost_of_a_start(backend: LocalBackend, folder: Path) -> float:
    """Milliseconds of the supervisor's CPU for a rank that does nothing, from its start to its end."""
    supervisor = supervisor_pid(folder / "state")
    begin = cpu_of(supervisor)
    jobs = [await submit(backend, job(f"true{number}", ("true",), 2)) for number in range(GANGS)]
    await until(lambda: all(backend.finished(name) for name in jobs[-8:]))
    return (cpu_of(supervisor) - begin) * 1000 / (GANGS * 2)


async def until(condition: Callable[[], bool]) -> None:
    while True:
        if condition():
            return
        await asyncio.sleep(0.001)


def supervisor_pid(state: Path) -> int:
    """Read the pid from the lock file, which names watchdog and supervisor with their start times."""
    return int((state / "supervisor.lock").read_text().split()[1].partition(":")[0])


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def submit(backend: LocalBackend, asked: Job) -> str:
    number = backend.reserve()
    await backend.inject(JobArrived(f"{asked.name}-{number}", number, asked))
    return f"{asked.name}-{number}"


def job(name: str, command: tuple[str, ...], replicas: int = RANKS, grace: int = 10_000) -> Job:
    role = Role(replicas=replicas, resources={"gpu": 1}, command=command)
    return Job(name, (role,), workdir="/", grace=grace, restart=UNLIMITED_RESTARTS)


def summary(seconds: list[float]) -> str:
    return f"median {statistics.median(seconds) * 1000:.0f} ms, worst {max(seconds) * 1000:.0f} ms"


def claim(what: str, measured: float, target: float, unit: str) -> None:
    print(json.dumps({"claim": what, "measured": measured, "unit": unit, "target": target}))


if __name__ == "__main__":
    main()
