"""Recovery after controller, supervisor or watchdog was killed: no job is lost or repeated, no process is left."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from local_controller import PATH_ONLY, await_condition, job, move_aside, run_controller, two_nodes
from supervisor_driver import is_gone, wait_until

import strays
from windlass.backends.local import folder_lock, supervisor_client
from windlass.backends.local.backend import LocalBackend
from windlass.backends.local.paths import prepare_folder
from windlass.backends.local.state_reader import StateReader
from windlass.backends.local.supervisor import proc
from windlass.backends.local.supervisor_start import SupervisorLink
from windlass.backends.port import Backend, BackendEvent, Changes, JobArrived
from windlass.controller.controller import Controller, run
from windlass.core.lifecycle.commands import Command
from windlass.core.model.job import Job, RestartPolicy
from windlass.core.model.queue import Queue
from windlass.core.model.reservation import Reservation
from windlass.core.model.status import Phase

QUICK = RestartPolicy(user_limit=3, backoff_base=10)


def supervising_pids(state: Path) -> tuple[int, int]:
    """Returns the pids of watchdog and supervisor, from the lock that they hold."""
    watchdog, supervisor = (int(entry.split(":")[0]) for entry in (state / "supervisor.lock").read_text().split())
    return watchdog, supervisor


@pytest.mark.parametrize("victim", ["watchdog", "supervisor", "both"])
def test_a_job_restarts_after_the_death_of_supervisor_or_watchdog(state: Path, victim: str) -> None:
    async def scenario() -> None:
        async with run_controller(state) as local:
            job_id = await local.submit(job("sh", "-c", "test $WINDLASS_GENERATION = 2 || exec sleep 1000", replicas=2))
            await local.phase(job_id, Phase.RUNNING)
            pids = [task.pid or 0 for task in local.backend.store.tasks(job_id)]
            watchdog, supervisor = supervising_pids(state)
            for pid in {"watchdog": [watchdog], "supervisor": [supervisor], "both": [watchdog, supervisor]}[victim]:
                os.kill(pid, signal.SIGKILL)
            ended = await local.end(job_id)
            assert all(is_gone(pid) for pid in pids)
            assert (ended.status.phase, ended.status.generation) == (Phase.SUCCEEDED, 2)
            assert ended.status.last_failure is not None
            assert ended.status.last_failure.reason == "Lost"

    asyncio.run(scenario())


def test_a_job_that_ends_without_a_controller_has_succeeded(state: Path) -> None:
    async def scenario() -> None:
        gate = state / "gate"
        async with run_controller(state, end=False) as local:
            os.mkfifo(gate)
            job_id = await local.submit(job("sh", "-c", f"read x < '{gate}'"))
            running = await local.phase(job_id, Phase.RUNNING)
        (pid,) = [task.pid or 0 for task in open_records(state).tasks(job_id)]
        gate.write_text("go\n")
        wait_until(lambda: is_gone(pid), "the rank does not end")
        async with run_controller(state) as local:
            ended = await local.end(job_id)
            assert (ended.status.phase, ended.status.generation) == (Phase.SUCCEEDED, running.status.generation)

    asyncio.run(scenario())


def test_a_job_restarts_after_a_crash_of_all_processes(state: Path) -> None:
    async def scenario() -> None:
        async with run_controller(state, end=False) as local:
            job_id = await local.submit(job("sh", "-c", "test $WINDLASS_GENERATION = 2 || exec sleep 1000"))
            await local.phase(job_id, Phase.RUNNING)
            pids = [*supervising_pids(state), *(task.pid or 0 for task in local.backend.store.tasks(job_id))]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        async with run_controller(state) as local:
            assert (await local.end(job_id)).status.generation == 2

    asyncio.run(scenario())


def test_a_supervisor_that_hangs_is_replaced(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start_supervisor, hello_timeout = supervisor_client.start_supervisor, supervisor_client._HELLO_TIMEOUT_S

    def start_another(*args: Any, **options: Any) -> SupervisorLink:
        supervisor_client._HELLO_TIMEOUT_S = hello_timeout  # the watchdog first waits for the old one
        return start_supervisor(*args, **options)

    monkeypatch.setattr(supervisor_client, "start_supervisor", start_another)
    monkeypatch.setattr(supervisor_client, "_HELLO_TIMEOUT_S", 0.5)

    async def scenario() -> None:
        async with run_controller(state, end=False) as local:
            job_id = await local.submit(job("sh", "-c", "test $WINDLASS_GENERATION = 2 || exec sleep 1000"))
            await local.phase(job_id, Phase.RUNNING)
            (rank,) = [task.pid or 0 for task in local.backend.store.tasks(job_id)]
            hung = supervising_pids(state)
        for pid in hung:
            os.kill(pid, signal.SIGSTOP)
        async with run_controller(state) as local:
            ended = await local.end(job_id)
            assert (ended.status.phase, ended.status.generation) == (Phase.SUCCEEDED, 2)
            assert is_gone(rank)
            assert not set(hung) & set(supervising_pids(state))

    asyncio.run(scenario())


def test_a_launch_that_a_later_controller_repeats_has_a_port(state: Path) -> None:
    def die_with(commands: Sequence[Command]) -> None:
        if commands:
            os.kill(os.getpid(), signal.SIGKILL)

    async def begin() -> None:
        async with run_controller(state, end=False) as local:
            local.backend.perform = die_with  # type: ignore[method-assign]
            await local.submit(job("sh", "-c", "echo $MASTER_PORT"))
            await asyncio.sleep(strays.TIMEOUT_S)

    async def scenario() -> None:
        async with run_controller(state) as local:
            await local.end("job-1")
            assert int(local.printed("job-1")[0]) >= 20_000

    assert run_in_fork(lambda: asyncio.run(begin())) == -signal.SIGKILL
    asyncio.run(scenario())


def test_a_generation_is_never_started_again_by_a_later_supervisor(state: Path, tmp_path: Path) -> None:
    starts = tmp_path / "diary"

    async def begin() -> None:
        async with run_controller(state, end=False) as local:
            commit = local.backend.store.commit

            def die_before_the_start_is_recorded(changes: Changes, *notes: Any) -> None:
                if any(found.status.phase is Phase.RUNNING for found in changes.states):
                    os.kill(os.getpid(), signal.SIGKILL)
                commit(changes, *notes)

            local.backend.store.commit = die_before_the_start_is_recorded  # type: ignore[method-assign]
            note = f"echo $WINDLASS_GENERATION >> '{starts}'"
            await local.submit(job("sh", "-c", f"{note}; test $WINDLASS_GENERATION = 2 || exec sleep 1000"))
            await asyncio.sleep(strays.TIMEOUT_S)

    assert run_in_fork(lambda: asyncio.run(begin())) == -signal.SIGKILL
    wait_until(starts.exists, "the rank did not start")
    for pid in supervising_pids(state):
        os.kill(pid, signal.SIGKILL)

    async def take_over() -> None:
        async with run_controller(state) as local:
            ended = await local.end("job-1")
            assert (ended.status.phase, ended.status.generation) == (Phase.SUCCEEDED, 2)

    asyncio.run(take_over())
    assert starts.read_text().split() == ["1", "2"]


def test_jobs_of_a_run_end_soon_after_their_controller(state: Path) -> None:
    async def scenario() -> None:
        async with run_controller(state, end=False, kind="run") as local:
            job_id = await local.submit(job("sh", "-c", "exec sleep 1000"))
            await local.phase(job_id, Phase.RUNNING)
            pids = [*supervising_pids(state), *(task.pid or 0 for task in local.backend.store.tasks(job_id))]
        wait_until(lambda: all(is_gone(pid) for pid in pids), "the supervisor of a run does not end")
        async with run_controller(state, kind="run") as local:
            lost = await local.until(job_id, lambda found: found.status.last_failure is not None)
            assert lost.status.last_failure is not None
            assert lost.status.last_failure.reason == "Lost"

    asyncio.run(scenario())


def test_gangs_without_a_record_are_ended(state: Path) -> None:
    async def scenario() -> None:
        async with run_controller(state, end=False) as local:
            job_id = await local.submit(job("sleep", "1000"))
            await local.phase(job_id, Phase.RUNNING)
            (task,) = local.backend.store.tasks(job_id)
        move_aside(local.backend.paths)
        async with run_controller(state) as local:
            await asyncio.to_thread(wait_until, lambda: is_gone(task.pid or 0), "the unknown gang still runs")
            fresh = await local.submit(job("true"))
            assert (await local.end(fresh)).status.phase is Phase.SUCCEEDED

    asyncio.run(scenario())


# --- the controller, killed at random times --------------------------------------------------------------


class DyingBackend:
    """A backend that kills its controller at a step: begin or end of a call, or just after a commit is durable."""

    def __init__(self, backend: LocalBackend, steps: int) -> None:
        self.backend = backend
        self.left = steps
        commit = backend.store.commit

        def commit_and_die(*args: Any) -> None:
            commit(*args)
            self.step()  # durable, and not yet acknowledged to the supervisor

        backend.store.commit = commit_and_die  # type: ignore[method-assign]

    def step(self) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def now(self) -> int:
        return self.backend.now()

    async def wait(self, until: int | None) -> Sequence[BackendEvent]:
        events = await self.backend.wait(until)
        self.step()
        return events

    async def commit(self, changes: Changes) -> Mapping[str, str]:
        self.step()
        failures = await self.backend.commit(changes)
        self.step()
        return failures

    def perform(self, commands: Sequence[Command]) -> None:
        for command in commands:
            self.backend.perform([command])
            self.step()


def run_one_controller(state: Path, jobs: dict[str, Job], steps: int) -> None:
    """Runs a controller that submits the jobs without a record, and ends when every job has ended."""

    async def scenario() -> None:
        backend = LocalBackend(state, two_nodes(), kind="up", environment=PATH_ONLY)
        controller = Controller(backend.recover(), backend.finished)
        dying_backend: Backend = DyingBackend(backend, steps)  # type: ignore[assignment]  # `recover` and `finished` are past
        running = asyncio.create_task(run(controller, dying_backend, on_trouble=print))
        await asyncio.gather(
            *(
                backend.inject(JobArrived(job_id, number, wanted))
                for number, (job_id, wanted) in enumerate(jobs.items(), start=1)
                if backend.store.job(job_id) is None
            )
        )
        await await_condition(lambda: not backend.has_living_jobs(), "the jobs do not end")
        running.cancel()
        backend.close(end=True)

    asyncio.run(scenario())


def run_in_fork(body: Callable[[], None]) -> int:
    """Runs a function in a fork of this process; returns the exit code, negative for a signal."""
    child = os.fork()
    if child == 0:
        try:
            body()
        except BaseException:  # noqa: BLE001 - the fork must not continue as a second pytest
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("seed", range(10))
def test_a_controller_killed_at_any_moment_loses_and_repeats_nothing(state: Path, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - a fault, not a secret
    starts = tmp_path / "diary"
    note = f"echo $WINDLASS_JOB_ID $WINDLASS_GENERATION $RANK >> '{starts}'"
    jobs = {
        "plain-1": job("sh", "-c", note, replicas=2, name="plain"),
        "fails-2": job("sh", "-c", f"{note}; test $WINDLASS_GENERATION = 2", replicas=1, name="fails", restart=QUICK),
        "wide-3": job("sh", "-c", note, replicas=4, name="wide"),
        "gone-4": job("sh", "-c", f"{note}; exit 5", name="gone"),
        "last-5": job("sh", "-c", note, replicas=2, name="last", priority=-1),
    }
    deaths = 0
    for _ in range(5):
        code = run_in_fork(lambda: run_one_controller(state, jobs, rng.randint(1, 14)))
        assert code in (0, -signal.SIGKILL)
        deaths += code != 0
        if code == 0:
            break
    if code != 0:
        assert run_in_fork(lambda: run_one_controller(state, jobs, steps=-1)) == 0
    assert deaths
    found = {job_id: open_records(state).job(job_id) for job_id in jobs}
    assert {job_id: (s.status.phase, s.status.generation) for job_id, s in found.items() if s} == {
        "plain-1": (Phase.SUCCEEDED, 1),
        "fails-2": (Phase.SUCCEEDED, 2),
        "wide-3": (Phase.SUCCEEDED, 1),
        "gone-4": (Phase.FAILED, 1),
        "last-5": (Phase.SUCCEEDED, 1),
    }
    assert sorted(starts.read_text().splitlines()) == sorted(
        f"{job_id} {generation} {rank}"
        for job_id, wanted in jobs.items()
        for generation in ((1, 2) if job_id == "fails-2" else (1,))
        for rank in range(wanted.members)
    )


# --- the folder's lock -------------------------------------------------------------------------------------


def test_a_second_controller_is_refused_with_the_identity_of_the_first(state: Path) -> None:
    paths = prepare_folder(state)
    held = folder_lock.acquire_lock(paths, "up")
    with pytest.raises(folder_lock.HeldError) as refused:
        LocalBackend(state, two_nodes(), kind="run")
    own = proc.stat(os.getpid())
    assert own is not None
    assert refused.value.holder == folder_lock.LockHolder(os.getpid(), own.started, "up")
    fix = "end it with: windlass down"
    assert str(refused.value) == f"`windlass up` (pid {os.getpid()}) already controls {state}; {fix}"
    held.release()
    folder_lock.acquire_lock(paths, "run").release()


def test_a_released_lock_is_free_although_a_forked_process_holds_its_descriptor(state: Path) -> None:
    paths = prepare_folder(state)
    held = folder_lock.acquire_lock(paths, "up")
    inherited = os.dup(held.descriptor)
    held.release()
    folder_lock.acquire_lock(paths, "run").release()
    os.close(inherited)


def test_a_killed_controller_releases_its_lock(state: Path) -> None:
    paths = prepare_folder(state)

    def hold_and_die() -> None:
        folder_lock.acquire_lock(paths, "up")
        os.kill(os.getpid(), signal.SIGKILL)

    assert run_in_fork(hold_and_die) == -signal.SIGKILL
    assert folder_lock.read_holder(paths) is None
    folder_lock.acquire_lock(paths, "up").release()


def test_a_rank_does_not_hold_the_lock_of_an_ended_controller(state: Path) -> None:
    async def scenario() -> None:
        async with run_controller(state, end=False) as local:
            await local.phase(await local.submit(job("sleep", "1000")), Phase.RUNNING)
        async with run_controller(state) as local:
            assert local.backend.has_living_jobs()

    asyncio.run(scenario())


def open_records(state: Path) -> StateReader:
    opened = StateReader.open(prepare_folder(state))
    assert opened is not None
    return opened


def test_a_reader_needs_no_controller(state: Path) -> None:
    async def scenario() -> str:
        async with run_controller(state) as local:
            job_id = await local.submit(job("true"))
            await local.end(job_id)
            assert open_records(state).job(job_id) == local.state(job_id)
            return job_id

    job_id = asyncio.run(scenario())
    found = open_records(state).job(job_id)
    assert found is not None
    assert found.status.phase is Phase.SUCCEEDED


def test_past_usage_and_reservations_outlive_a_controller(state: Path) -> None:
    cluster = replace(two_nodes(), queues=(Queue("default", half_life=60_000),))
    kept = Reservation("repair", ("n2",), 2**42, 2**42 + 1)

    async def use() -> None:
        async with run_controller(state, cluster) as local:
            await local.backend.set_reservations((kept,))
            await local.end(await local.submit(job("sleep", "0.2")))
            assert local.controller.ledger.past_usage["default"].amounts["gpu"] > 0

    async def take_over() -> None:
        async with run_controller(state, cluster) as local:
            assert local.controller.ledger.past_usage["default"].amounts["gpu"] > 0
            assert local.controller.snapshot().reservations == (kept,)

    asyncio.run(use())
    asyncio.run(take_over())
