"""Whoever is killed, and whenever: nothing is lost, nothing is done twice, nothing is left."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hand import await_that, is_gone
from home import BARE, at_home, job, soon, two_nodes

import strays
from windlass.backends.local import folder_lock, supervisor_client
from windlass.backends.local.backend import LocalBackend
from windlass.backends.local.paths import prepare
from windlass.backends.local.state_reader import StateReader
from windlass.backends.local.state_store import move_aside
from windlass.backends.local.supervisor import proc
from windlass.backends.local.supervisor_start import Link
from windlass.backends.port import Backend, Changes, JobArrived, WorldEvent
from windlass.controller import Controller, run
from windlass.core.lifecycle.commands import Command
from windlass.core.model.job import Job, RestartPolicy
from windlass.core.model.queue import Queue
from windlass.core.model.reservation import Reservation
from windlass.core.model.status import Phase

QUICK = RestartPolicy(user_limit=3, backoff_base=10)


def kept_by(state: Path) -> tuple[int, int]:
    """The pids of watchdog and supervisor, from the lock they hold."""
    watchdog, supervisor = (int(entry.split(":")[0]) for entry in (state / "supervisor.lock").read_text().split())
    return watchdog, supervisor


@pytest.mark.parametrize("victim", ["watchdog", "supervisor", "both"])
def test_a_job_survives_the_death_of_its_keepers(state: Path, victim: str) -> None:
    async def story() -> None:
        async with at_home(state) as home:
            job_id = await home.submit(job("sh", "-c", "test $WINDLASS_GENERATION = 2 || exec sleep 1000", replicas=2))
            await home.phase(job_id, Phase.RUNNING)
            pids = [task.pid or 0 for task in home.world.store.tasks(job_id)]
            watchdog, supervisor = kept_by(state)
            for pid in {"watchdog": [watchdog], "supervisor": [supervisor], "both": [watchdog, supervisor]}[victim]:
                os.kill(pid, signal.SIGKILL)
            ended = await home.end(job_id)
            assert all(is_gone(pid) for pid in pids)
            assert (ended.status.phase, ended.status.generation) == (Phase.SUCCEEDED, 2)
            assert ended.status.last_failure is not None
            assert ended.status.last_failure.reason == "Lost"

    asyncio.run(story())


def test_a_job_that_ended_while_nobody_controlled_has_ended_well(state: Path) -> None:
    async def story() -> None:
        gate = state / "gate"
        async with at_home(state, end=False) as home:
            os.mkfifo(gate)
            job_id = await home.submit(job("sh", "-c", f"read x < '{gate}'"))
            running = await home.phase(job_id, Phase.RUNNING)
        (pid,) = [task.pid or 0 for task in records(state).tasks(job_id)]
        gate.write_text("go\n")
        await_that(lambda: is_gone(pid), "the rank does not end")
        async with at_home(state) as home:
            ended = await home.end(job_id)
            assert (ended.status.phase, ended.status.generation) == (Phase.SUCCEEDED, running.status.generation)

    asyncio.run(story())


def test_after_a_crash_of_everything_the_job_starts_again(state: Path) -> None:
    async def story() -> None:
        async with at_home(state, end=False) as home:
            job_id = await home.submit(job("sh", "-c", "test $WINDLASS_GENERATION = 2 || exec sleep 1000"))
            await home.phase(job_id, Phase.RUNNING)
            pids = [*kept_by(state), *(task.pid or 0 for task in home.world.store.tasks(job_id))]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        async with at_home(state) as home:
            assert (await home.end(job_id)).status.generation == 2

    asyncio.run(story())


def test_a_supervisor_that_hangs_is_replaced(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start_supervisor, patience = supervisor_client.start_supervisor, supervisor_client._PATIENCE

    def start_another(*args: Any, **options: Any) -> Link:
        supervisor_client._PATIENCE = patience  # the new watchdog gives the old one some seconds to end by itself
        return start_supervisor(*args, **options)

    monkeypatch.setattr(supervisor_client, "start_supervisor", start_another)
    monkeypatch.setattr(supervisor_client, "_PATIENCE", 0.5)

    async def story() -> None:
        async with at_home(state, end=False) as home:
            job_id = await home.submit(job("sh", "-c", "test $WINDLASS_GENERATION = 2 || exec sleep 1000"))
            await home.phase(job_id, Phase.RUNNING)
            (rank,) = [task.pid or 0 for task in home.world.store.tasks(job_id)]
            hung = kept_by(state)
        for pid in hung:
            os.kill(pid, signal.SIGSTOP)
        async with at_home(state) as home:
            ended = await home.end(job_id)
            assert (ended.status.phase, ended.status.generation) == (Phase.SUCCEEDED, 2)
            assert is_gone(rank)
            assert not set(hung) & set(kept_by(state))

    asyncio.run(story())


def test_a_launch_that_was_not_carried_out_has_a_port_all_the_same(state: Path) -> None:
    def die_of(commands: Sequence[Command]) -> None:
        if commands:
            os.kill(os.getpid(), signal.SIGKILL)

    async def begin() -> None:
        async with at_home(state, end=False) as home:
            home.world.perform = die_of  # type: ignore[method-assign]
            await home.submit(job("sh", "-c", "echo $MASTER_PORT"))
            await asyncio.sleep(strays.PATIENCE)

    async def story() -> None:
        async with at_home(state) as home:
            await home.end("job-1")
            assert int(home.printed("job-1")[0]) >= 20_000

    assert in_a_process(lambda: asyncio.run(begin())) == -signal.SIGKILL
    asyncio.run(story())


def test_jobs_of_a_run_end_soon_after_their_controller(state: Path) -> None:
    async def story() -> None:
        async with at_home(state, end=False, kind="run") as home:
            job_id = await home.submit(job("sh", "-c", "exec sleep 1000"))
            await home.phase(job_id, Phase.RUNNING)
            pids = [*kept_by(state), *(task.pid or 0 for task in home.world.store.tasks(job_id))]
        await_that(lambda: all(is_gone(pid) for pid in pids), "the supervisor of a run does not end")
        async with at_home(state, kind="run") as home:
            lost = await home.until(job_id, lambda found: found.status.last_failure is not None)
            assert lost.status.last_failure is not None
            assert lost.status.last_failure.reason == "Lost"

    asyncio.run(story())


def test_gangs_that_no_record_knows_are_ended(state: Path) -> None:
    async def story() -> None:
        async with at_home(state, end=False) as home:
            job_id = await home.submit(job("sleep", "1000"))
            await home.phase(job_id, Phase.RUNNING)
            (task,) = home.world.store.tasks(job_id)
        move_aside(home.world.paths)
        async with at_home(state) as home:
            await asyncio.to_thread(await_that, lambda: is_gone(task.pid or 0), "an unknown gang goes on")
            fresh = await home.submit(job("true"))
            assert (await home.end(fresh)).status.phase is Phase.SUCCEEDED

    asyncio.run(story())


# --- the controller, killed at seeded moments --------------------------------------------------------------


class Dying:
    """A world whose controller is killed at a step: an edge of a call, or the moment after a commit is durable."""

    def __init__(self, world: LocalBackend, steps: int) -> None:
        self.world = world
        self.left = steps
        commit = world.store.commit

        def commit_and_die(*args: Any) -> None:
            commit(*args)
            self.step()  # durable, and not yet acknowledged to the supervisor

        world.store.commit = commit_and_die  # type: ignore[method-assign]

    def step(self) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def now(self) -> int:
        return self.world.now()

    async def wait(self, until: int | None) -> Sequence[WorldEvent]:
        events = await self.world.wait(until)
        self.step()
        return events

    async def commit(self, changes: Changes) -> None:
        self.step()
        await self.world.commit(changes)
        self.step()

    def perform(self, commands: Sequence[Command]) -> None:
        for command in commands:
            self.world.perform([command])
            self.step()


def live(state: Path, jobs: dict[str, Job], steps: int) -> None:
    """One life of a controller: hand in what is not on record, and leave when every job has ended."""

    async def story() -> None:
        world = LocalBackend(state, two_nodes(), kind="up", environment=BARE)
        controller = Controller(world.recover(), world.finished)
        dying: Backend = Dying(world, steps)  # type: ignore[assignment]  # `recover` and `finished` are past
        running = asyncio.create_task(run(controller, dying, on_trouble=print))
        await asyncio.gather(
            *(
                world.inject(JobArrived(job_id, number, asked))
                for number, (job_id, asked) in enumerate(jobs.items(), start=1)
                if world.store.job(job_id) is None
            )
        )
        await soon(lambda: not world.living(), "jobs that do not end")
        running.cancel()
        world.close(end=True)

    asyncio.run(story())


def in_a_process(body: Callable[[], None]) -> int:
    """Run it in a fork of this process; returns its exit code, negative for a signal."""
    child = os.fork()
    if child == 0:
        try:
            body()
        except BaseException:  # noqa: BLE001 - the fork must not go on as a second pytest
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("seed", range(10))
def test_a_controller_killed_at_any_moment_loses_and_repeats_nothing(state: Path, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - a fault, not a secret
    diary = tmp_path / "diary"
    note = f"echo $WINDLASS_JOB_ID $WINDLASS_GENERATION $RANK >> '{diary}'"
    jobs = {
        "plain-1": job("sh", "-c", note, replicas=2, name="plain"),
        "fails-2": job("sh", "-c", f"{note}; test $WINDLASS_GENERATION = 2", replicas=1, name="fails", restart=QUICK),
        "wide-3": job("sh", "-c", note, replicas=4, name="wide"),
        "gone-4": job("sh", "-c", f"{note}; exit 5", name="gone"),
        "last-5": job("sh", "-c", note, replicas=2, name="last", priority=-1),
    }
    deaths = 0
    for _ in range(5):
        code = in_a_process(lambda: live(state, jobs, rng.randint(1, 14)))
        assert code in (0, -signal.SIGKILL)
        deaths += code != 0
        if code == 0:
            break
    if code != 0:
        assert in_a_process(lambda: live(state, jobs, steps=-1)) == 0
    assert deaths
    found = {job_id: records(state).job(job_id) for job_id in jobs}
    assert {job_id: (s.status.phase, s.status.generation) for job_id, s in found.items() if s} == {
        "plain-1": (Phase.SUCCEEDED, 1),
        "fails-2": (Phase.SUCCEEDED, 2),
        "wide-3": (Phase.SUCCEEDED, 1),
        "gone-4": (Phase.FAILED, 1),
        "last-5": (Phase.SUCCEEDED, 1),
    }
    assert sorted(diary.read_text().splitlines()) == sorted(
        f"{job_id} {generation} {rank}"
        for job_id, asked in jobs.items()
        for generation in ((1, 2) if job_id == "fails-2" else (1,))
        for rank in range(asked.members)
    )


# --- the folder's lock -------------------------------------------------------------------------------------


def test_a_second_controller_is_told_who_the_first_is(state: Path) -> None:
    paths = prepare(state)
    held = folder_lock.acquire(paths, "up")
    with pytest.raises(folder_lock.HeldError) as refused:
        LocalBackend(state, two_nodes(), kind="run")
    me = proc.stat(os.getpid())
    assert me is not None
    assert refused.value.holder == folder_lock.Holder(os.getpid(), me.started, "up")
    assert str(refused.value) == f"`windlass up` (pid {os.getpid()}) already controls {state}"
    held.release()
    folder_lock.acquire(paths, "run").release()


def test_a_killed_controller_holds_nothing(state: Path) -> None:
    paths = prepare(state)

    def hold_and_die() -> None:
        folder_lock.acquire(paths, "up")
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_a_process(hold_and_die) == -signal.SIGKILL
    assert folder_lock.holder(paths) is None
    folder_lock.acquire(paths, "up").release()


def test_a_rank_does_not_hold_the_lock_of_a_dead_controller(state: Path) -> None:
    async def story() -> None:
        async with at_home(state, end=False) as home:
            await home.phase(await home.submit(job("sleep", "1000")), Phase.RUNNING)
        async with at_home(state) as home:
            assert home.world.living()

    asyncio.run(story())


def records(state: Path) -> StateReader:
    opened = StateReader.open(prepare(state))
    assert opened is not None
    return opened


def test_a_reader_needs_no_controller(state: Path) -> None:
    async def story() -> str:
        async with at_home(state) as home:
            job_id = await home.submit(job("true"))
            await home.end(job_id)
            assert records(state).job(job_id) == home.state(job_id)
            return job_id

    job_id = asyncio.run(story())
    found = records(state).job(job_id)
    assert found is not None
    assert found.status.phase is Phase.SUCCEEDED


def test_what_queues_have_used_and_what_is_reserved_outlives_a_controller(state: Path) -> None:
    cluster = replace(two_nodes(), queues=(Queue("default", half_life=60_000),))
    kept = Reservation("repair", ("n2",), 2**42, 2**42 + 1)

    async def use() -> None:
        async with at_home(state, cluster) as home:
            await home.world.set_reservations((kept,))
            await home.end(await home.submit(job("sleep", "0.2")))
            assert home.controller.ledger.past["default"].amounts["gpu"] > 0

    async def take_over() -> None:
        async with at_home(state, cluster) as home:
            assert home.controller.ledger.past["default"].amounts["gpu"] > 0
            assert home.controller.snapshot().reservations == (kept,)

    asyncio.run(use())
    asyncio.run(take_over())
