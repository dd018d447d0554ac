"""Faults of the machine: a full disk, a folder without write access, a damaged database, a clock that jumps."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from local_controller import job, move_aside, run_controller, two_nodes

from windlass.backends.local.backend import LocalBackend
from windlass.backends.local.clock import SYSTEM
from windlass.backends.local.paths import StatePaths, prepare_folder
from windlass.backends.local.state_reader import CorruptError, StateReader
from windlass.backends.local.state_store import open_store
from windlass.backends.port import BackendError, Changes
from windlass.core.model.status import Phase


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB in memory."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"mounting is not permitted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill_disk(folder: Path) -> Path:
    """Creates a file that leaves no byte free, and returns it."""
    file = folder / "filler"
    with file.open("wb", buffering=0) as stream:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while stream.write(b"\0" * size):
                    pass
            except OSError:
                continue
    return file


def test_a_submission_on_a_full_disk_waits_until_there_is_space(small_disk: Path) -> None:
    async def scenario() -> None:
        async with run_controller(small_disk / "state") as local:
            first = await local.submit(job("true"))
            await local.end(first)
            filler = fill_disk(small_disk)
            big = job("true", labels={"note": "x" * 200_000})
            submitting = asyncio.create_task(local.submit(big))
            await local.first_trouble()
            assert [found.id for found in local.backend.store.jobs()] == [first]
            assert not submitting.done()
            filler.unlink()
            assert (await local.end(await submitting)).status.phase is Phase.SUCCEEDED
            assert local.troubles == [
                f"{local.backend.paths.database}: the disk is full; nothing was changed, free some space"
            ]

    asyncio.run(scenario())


def test_a_database_that_may_not_grow_is_treated_like_a_full_disk(state: Path) -> None:
    async def scenario() -> None:
        async with run_controller(state) as local:
            connection = local.backend.store._connection
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages}")
            submitting = asyncio.create_task(local.submit(job("true", labels={"note": "x" * 200_000})))
            await local.first_trouble()
            assert local.backend.store.jobs() == []
            with pytest.raises(BackendError, match="the turn before this one could not be written yet"):
                await local.backend.commit(Changes())
            connection.execute("PRAGMA max_page_count = 1073741823")
            assert (await local.end(await submitting)).status.phase is Phase.SUCCEEDED
            assert len(local.troubles) == 1

    asyncio.run(scenario())


def test_output_that_does_not_fit_is_dropped_with_one_message(small_disk: Path) -> None:
    async def scenario() -> None:
        async with run_controller(small_disk / "state") as local:
            prints_much = "head -c 5000000 /dev/zero; echo done >&2"
            job_id = await local.submit(job("sh", "-c", prints_much))
            await local.first_trouble()
            (local.backend.paths.generation_logs(job_id, 1) / "0.out").unlink()
            assert (await local.end(job_id)).status.phase is Phase.SUCCEEDED
            about_output = [trouble for trouble in local.troubles if trouble.startswith(job_id)]
            assert about_output == [f"{job_id}: output of rank 0 is being lost: No space left on device"]

    asyncio.run(scenario())


def test_a_folder_that_cannot_be_written_is_named_with_the_remedy(small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(BackendError, match="Read-only file system; make it writable, or name another"):
        LocalBackend(small_disk / "state", two_nodes(), kind="run")


def test_a_folder_that_has_become_read_only_can_still_be_read(small_disk: Path) -> None:
    state = small_disk / "state"

    async def scenario() -> str:
        async with run_controller(state) as local:
            job_id = await local.submit(job("true"))
            await local.end(job_id)
            return job_id

    job_id = asyncio.run(scenario())
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(BackendError, match="make it writable"):
        LocalBackend(state, two_nodes(), kind="run")
    found = StateReader.open(StatePaths(state))
    assert found is not None
    assert found.job(job_id) is not None
    found.close()


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_of_another_user_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(BackendError, match="Permission denied"):
        prepare_folder(tmp_path / "state")
    tmp_path.chmod(0o700)


@pytest.mark.parametrize("damage", ["not a database at all", "a page in the middle"])
def test_a_damaged_database_is_named_and_can_be_moved_aside(state: Path, damage: str) -> None:
    paths = prepare_folder(state)
    if damage == "a page in the middle":
        open_store(paths).close()
        raw = bytearray(paths.database.read_bytes())
        raw[4096:8192] = b"\xff" * 4096
        paths.database.write_bytes(raw)
    else:
        paths.database.write_text("this is no database. " * 500)

    async def scenario() -> None:
        with pytest.raises(CorruptError) as refused:
            async with run_controller(state):
                pass
        assert str(refused.value).startswith(f"{paths.database} is damaged (")
        assert f"mv '{paths.database}'" in str(refused.value)
        aside = move_aside(paths)
        assert aside.exists()
        async with run_controller(state) as local:
            assert (await local.end(await local.submit(job("true")))).status.phase is Phase.SUCCEEDED

    asyncio.run(scenario())


def test_a_database_of_a_later_version_is_refused(state: Path) -> None:
    paths = prepare_folder(state)
    store = open_store(paths)
    store._connection.execute("PRAGMA user_version = 99")
    store.close()
    with pytest.raises(BackendError, match="written by a later version of Windlass"):
        open_store(paths)


def test_a_wall_clock_that_jumps_changes_nothing(state: Path) -> None:
    hour = 3_600_000

    async def scenario() -> None:
        times: list[int] = []
        for jump in (0, -48 * hour, 48 * hour, 0):
            jumped = SYSTEM._replace(wall=lambda jump=jump: SYSTEM.wall() + jump)
            async with run_controller(state, sources=jumped) as local:
                job_id = await local.submit(job("true", walltime=hour))
                assert (await local.end(job_id)).status.phase is Phase.SUCCEEDED
                times.append(local.backend.now())
        assert times == sorted(times)
        assert times[-1] - times[0] < hour

    asyncio.run(scenario())


def test_a_database_without_tables_yet_has_no_records(state: Path) -> None:
    paths = prepare_folder(state)
    paths.database.touch(mode=0o600)  # as the first controller leaves it for a moment
    assert StateReader.open(paths) is None


@pytest.mark.parametrize("content", [b"\xe4" * 16, b"", b"0123456789abcdef"])
def test_a_damaged_mark_is_restored(state: Path, content: bytes) -> None:
    mark = state / "id"

    async def scenario(wanted: bytes | None = None) -> None:
        async with run_controller(state):
            assert wanted is None or mark.read_bytes() == wanted

    asyncio.run(scenario())
    before = mark.read_bytes()
    mark.write_bytes(content)
    asyncio.run(scenario(before))
