"""Damage of the state database that SQLite itself does not notice is named, and never passed over."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from windlass.backends.local import commit_count
from windlass.backends.local.clock import SYSTEM
from windlass.backends.local.paths import StatePaths, prepare_folder
from windlass.backends.local.sealed_text import seal, unseal
from windlass.backends.local.state_reader import CorruptError, StateReader
from windlass.backends.local.state_store import Notes, StateStore, open_store
from windlass.backends.port import Changes
from windlass.core.model.job import Job, Role
from windlass.core.model.status import JobState, Phase, Placement, Status

JOB = Job("train", (Role(),))
ENDED = JobState("train-1", 1, JOB, Status(phase=Phase.SUCCEEDED, reason="Succeeded", finished_at=7))
RUNNING = JobState("train-2", 2, JOB, Status(phase=Phase.RUNNING, placement=Placement({"worker": ("n1",)})))


@pytest.fixture
def paths(tmp_path: Path) -> StatePaths:
    return prepare_folder(tmp_path / "state")


def write(paths: StatePaths, *states: JobState) -> None:
    with closing(open_store(paths)) as store:
        for state in states or (ENDED, RUNNING):
            store.commit(Changes(states=(state,)), Notes())


def change(paths: StatePaths, statement: str) -> None:
    """Changes a row as damage would: checksums stay as they were."""
    with closing(open_store(paths)) as store:
        store._connection.execute(statement)


def open_for_writing(paths: StatePaths) -> None:
    open_store(paths).close()


def read_all(paths: StatePaths) -> None:
    records = StateReader.open(paths)
    assert records is not None
    with closing(records):
        records.jobs()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE jobs SET status = replace(status, 'Succeeded', 'Sucgeeded')",
        "UPDATE jobs SET spec = replace(spec, 'train', 'trahn')",
        "UPDATE jobs SET number = 3 WHERE number = 1",
        "UPDATE placements SET fields = replace(fields, 'n1', 'n3')",
        "UPDATE placements SET fields = replace(fields, '{', '[')",
        "UPDATE jobs SET status = x'00'",
    ],
)
@pytest.mark.parametrize("use", [open_for_writing, read_all])
def test_a_changed_record_is_named(paths: StatePaths, statement: str, use: Callable[[StatePaths], None]) -> None:
    write(paths)
    use(paths)
    change(paths, statement)
    with pytest.raises(CorruptError, match="is damaged"):
        use(paths)


@pytest.mark.parametrize("statement", ["UPDATE jobs SET phase = 'Queued'", "UPDATE jobs SET finished_at = NULL"])
def test_a_column_that_differs_from_its_status_is_named(paths: StatePaths, statement: str) -> None:
    write(paths)
    change(paths, f"{statement} WHERE number = 1")
    with pytest.raises(CorruptError, match="the columns of train-1 differ from its status"):
        open_store(paths)


def test_records_without_checksums_are_read(paths: StatePaths) -> None:
    write(paths)
    with closing(open_store(paths)) as store:  # as an earlier version writes them
        for table, column in (("jobs", "spec"), ("jobs", "status"), ("placements", "fields")):
            store._connection.execute(f"UPDATE {table} SET {column} = json_remove({column}, '$.crc32')")  # noqa: S608
    with closing(open_store(paths)) as store:
        assert store.job("train-1") == ENDED
        assert store.job("train-2") == RUNNING


def test_a_sealed_text_is_json_with_one_more_member() -> None:
    for text in ("{}", '{"a":1}'):
        assert unseal(seal(text, "train-1"), "train-1") == text
        with pytest.raises(ValueError, match="does not have the checksum"):
            unseal(seal(text, "train-1"), "train-2")
    assert seal("{}", "a").startswith('{"crc32":"')


@pytest.mark.parametrize("use", [open_for_writing, read_all])
def test_commits_that_vanish_with_the_end_of_the_log_are_named(
    paths: StatePaths, use: Callable[[StatePaths], None]
) -> None:
    store = open_store(paths)
    log = Path(f"{paths.database}-wal")
    store.commit(Changes(states=(ENDED,)), Notes())
    before = log.stat().st_size
    store.commit(Changes(states=(RUNNING,)), Notes())
    content, database = log.read_bytes(), paths.database.read_bytes()
    store.close()  # empties the log
    paths.database.write_bytes(database)
    log.write_bytes(content[:before] + bytes([content[before] ^ 1]) + content[before + 1 :])
    with pytest.raises(CorruptError, match="its last 1 commits are missing; to go on without them: rm '"):
        use(paths)
    paths.commit_count.unlink()
    use(paths)


def test_commits_that_a_crash_of_the_machine_took_are_no_damage(
    paths: StatePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(paths)
    commit_count.CommitCountFile(paths).write(99)
    monkeypatch.setattr(commit_count, "SYSTEM", SYSTEM._replace(boot_id=lambda: "another"))
    open_for_writing(paths)
    read_all(paths)


def test_an_empty_file_in_place_of_the_database_is_named(paths: StatePaths) -> None:
    write(paths)
    paths.database.write_bytes(b"")
    for use in (open_store, StateReader.open):
        with pytest.raises(CorruptError, match="commits are missing"):
            use(paths)


@pytest.mark.parametrize("content", ["", "7", "00000000000000000099 boot 00000000", "\udcff"])
def test_a_damaged_count_is_no_count(paths: StatePaths, content: str) -> None:
    write(paths)
    paths.commit_count.write_bytes(content.encode(errors="surrogateescape"))
    open_for_writing(paths)
    read_all(paths)


def test_a_database_that_was_moved_aside_leaves_no_count(paths: StatePaths) -> None:
    write(paths)
    paths.database.rename(f"{paths.database}.damaged")
    with closing(open_store(paths)) as store:
        assert isinstance(store, StateStore)
        assert store.jobs() == []


def test_damaged_facts_of_the_folder_are_named(paths: StatePaths) -> None:
    write(paths)
    with closing(open_store(paths)) as store:
        store.note(Notes(meta={"fact": "[{"}))
        with pytest.raises(CorruptError, match="fact is "):
            store.number("fact")
        with pytest.raises(CorruptError, match="fact: "):
            store.decoded("fact", list[int])
        assert store.number("no fact") is store.decoded("no fact", list[int]) is None
