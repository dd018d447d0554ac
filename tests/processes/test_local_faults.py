"""A disk that is full, a folder that cannot be written, a database that is damaged, a clock that jumps."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from home import at_home, job, two_nodes

from windlass.backends.local.backend import LocalBackend
from windlass.backends.local.clock import SYSTEM
from windlass.backends.local.paths import StatePaths, prepare
from windlass.backends.local.state_reader import CorruptError, StateReader
from windlass.backends.local.state_store import move_aside, open_store
from windlass.backends.port import BackendError, Changes
from windlass.core.model.status import Phase


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB in memory."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(folder)]
    tried = subprocess.run(mount, capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"mounting is not permitted here: {tried.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """A file that leaves no byte free."""
    file = folder / "filler"
    with file.open("wb", buffering=0) as stream:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while stream.write(b"\0" * size):
                    pass
            except OSError:
                continue
    return file


def test_on_a_full_disk_nothing_happens_until_there_is_room(small_disk: Path) -> None:
    async def story() -> None:
        async with at_home(small_disk / "state") as home:
            first = await home.submit(job("true"))
            await home.end(first)
            filler = fill(small_disk)
            big = job("true", labels={"note": "x" * 200_000})
            submitting = asyncio.create_task(home.submit(big))
            await home.trouble()
            assert [found.id for found in home.world.store.jobs()] == [first]
            assert not submitting.done()
            filler.unlink()
            assert (await home.end(await submitting)).status.phase is Phase.SUCCEEDED
            assert home.troubles == [
                f"{home.world.paths.database}: the disk is full; nothing was changed, free some space"
            ]

    asyncio.run(story())


def test_a_database_that_may_not_grow_is_as_good_as_a_full_disk(state: Path) -> None:
    async def story() -> None:
        async with at_home(state) as home:
            connection = home.world.store._connection
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages}")
            submitting = asyncio.create_task(home.submit(job("true", labels={"note": "x" * 200_000})))
            await home.trouble()
            assert home.world.store.count() == 0
            with pytest.raises(BackendError, match="the turn before this one could not be written yet"):
                await home.world.commit(Changes())
            connection.execute("PRAGMA max_page_count = 1073741823")
            assert (await home.end(await submitting)).status.phase is Phase.SUCCEEDED
            assert len(home.troubles) == 1

    asyncio.run(story())


def test_output_that_finds_no_room_is_dropped_with_one_word_about_it(small_disk: Path) -> None:
    async def story() -> None:
        async with at_home(small_disk / "state") as home:
            floods = "head -c 5000000 /dev/zero; echo done >&2"
            job_id = await home.submit(job("sh", "-c", floods))
            await home.trouble()
            (home.world.paths.generation_logs(job_id, 1) / "0.out").unlink()
            assert (await home.end(job_id)).status.phase is Phase.SUCCEEDED
            about_output = [trouble for trouble in home.troubles if trouble.startswith(job_id)]
            assert about_output == [f"{job_id}: output of rank 0 is being lost: No space left on device"]

    asyncio.run(story())


def test_a_folder_that_cannot_be_written_is_named_with_the_way_out(small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(BackendError, match="Read-only file system; make it writable, or name another"):
        LocalBackend(small_disk / "state", two_nodes(), kind="run")


def test_a_folder_that_has_become_read_only_can_still_be_read(small_disk: Path) -> None:
    state = small_disk / "state"

    async def story() -> str:
        async with at_home(state) as home:
            job_id = await home.submit(job("true"))
            await home.end(job_id)
            return job_id

    job_id = asyncio.run(story())
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(BackendError, match="make it writable"):
        LocalBackend(state, two_nodes(), kind="run")
    found = StateReader.open(StatePaths(state))
    assert found is not None
    assert found.job(job_id) is not None
    found.close()


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_of_somebody_else_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(BackendError, match="Permission denied"):
        prepare(tmp_path / "state")
    tmp_path.chmod(0o700)


@pytest.mark.parametrize("damage", ["not a database at all", "a page in the middle"])
def test_a_damaged_database_is_named_and_can_be_moved_aside(state: Path, damage: str) -> None:
    paths = prepare(state)
    if damage == "a page in the middle":
        open_store(paths).close()
        raw = bytearray(paths.database.read_bytes())
        raw[4096:8192] = b"\xff" * 4096
        paths.database.write_bytes(raw)
    else:
        paths.database.write_text("this is no database. " * 500)

    async def story() -> None:
        with pytest.raises(CorruptError) as refused:
            async with at_home(state):
                pass
        assert str(refused.value).startswith(f"{paths.database} is damaged (")
        assert f"mv '{paths.database}'" in str(refused.value)
        aside = move_aside(paths)
        assert aside.exists()
        async with at_home(state) as home:
            assert (await home.end(await home.submit(job("true")))).status.phase is Phase.SUCCEEDED

    asyncio.run(story())


def test_a_database_of_another_version_is_left_alone(state: Path) -> None:
    paths = prepare(state)
    store = open_store(paths)
    store._connection.execute("PRAGMA user_version = 99")
    store.close()
    with pytest.raises(BackendError, match="written by another version of Windlass"):
        open_store(paths)


def test_a_wall_clock_that_jumps_changes_nothing(state: Path) -> None:
    hour = 3_600_000

    async def story() -> None:
        times: list[int] = []
        for jump in (0, -48 * hour, 48 * hour, 0):
            jumped = SYSTEM._replace(wall=lambda jump=jump: SYSTEM.wall() + jump)
            async with at_home(state, sources=jumped) as home:
                job_id = await home.submit(job("true", walltime=hour))
                assert (await home.end(job_id)).status.phase is Phase.SUCCEEDED
                times.append(home.world.now())
        assert times == sorted(times)
        assert times[-1] - times[0] < hour

    asyncio.run(story())
