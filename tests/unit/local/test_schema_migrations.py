"""Databases of earlier versions are upgraded, those of later versions are refused."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from pathlib import Path

import pytest

from windlass.backends.errors import BackendError
from windlass.backends.local import schema_migrations
from windlass.backends.local.schema_migrations import migrate

NEWEST = len(schema_migrations._SCRIPTS)


def connect(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(file, isolation_level=None)


def version_of(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def at_version(file: Path, version: int, monkeypatch: pytest.MonkeyPatch) -> sqlite3.Connection:
    """Returns a database of an earlier schema version."""
    connection = connect(file)
    with monkeypatch.context() as earlier:
        earlier.setattr(schema_migrations, "_SCRIPTS", schema_migrations._SCRIPTS[:version])
        migrate(connection, file)
    return connection


def test_an_empty_database_gets_the_newest_schema(tmp_path):
    connection = connect(tmp_path / "windlass.db")
    migrate(connection, tmp_path / "windlass.db")
    assert version_of(connection) == NEWEST
    migrate(connection, tmp_path / "windlass.db")
    assert version_of(connection) == NEWEST


def test_a_database_of_the_first_version_is_upgraded_and_keeps_its_jobs(tmp_path, monkeypatch):
    file = tmp_path / "windlass.db"
    connection = at_version(file, 1, monkeypatch)
    connection.execute("INSERT INTO environments (number, text) VALUES (1, '{}'), (2, '{\"A\": \"b\"}')")
    connection.execute(
        "INSERT INTO jobs (id, number, name, user, queue, phase, created_at, spec, status, environment)"
        " VALUES ('a-1', 1, 'a', 'ada', 'default', 'Queued', 0, '{}', '{}', 1)"
    )
    migrate(connection, file)
    assert version_of(connection) == NEWEST
    assert connection.execute("SELECT id FROM jobs").fetchall() == [("a-1",)]
    assert connection.execute("SELECT number FROM environments").fetchall() == [(1,)]  # no job has the other


def test_ended_jobs_of_the_third_version_keep_the_place_of_their_checkpoints_alone(tmp_path, monkeypatch):
    file = tmp_path / "windlass.db"
    connection = at_version(file, 3, monkeypatch)
    for number, variables in enumerate(
        ({"TOKEN": "a", "WINDLASS_CHECKPOINTS": "/ä"}, {"TOKEN": "b"}, {"TOKEN": "c"}), 1
    ):
        connection.execute("INSERT INTO environments (number, text) VALUES (?, ?)", (number, json.dumps(variables)))
    for job, (environment, finished) in enumerate(((1, 5), (1, 6), (2, 7), (3, None), (3, 8), (None, 9)), 1):
        connection.execute(
            "INSERT INTO jobs (id, number, name, user, queue, phase, created_at, spec, status,"
            " environment, finished_at) VALUES (?, ?, 'a', 'ada', 'default', 'x', 0, '{}', '{}', ?, ?)",
            (f"a-{job}", job, environment, finished),
        )
    migrate(connection, file)
    left = "SELECT jobs.id, text FROM jobs JOIN environments ON environments.number = jobs.environment ORDER BY id"
    found = {job: json.loads(text) for job, text in connection.execute(left)}
    place = {"WINDLASS_CHECKPOINTS": "/ä"}
    assert found == {"a-1": place, "a-2": place, "a-4": {"TOKEN": "c"}}
    assert connection.execute("SELECT count(*) FROM environments").fetchone() == (2,)


def test_placements_of_the_second_version_get_rows_of_their_own(tmp_path, monkeypatch):
    file = tmp_path / "windlass.db"
    connection = at_version(file, 2, monkeypatch)
    placement = {"nodes": {"worker": ["n1", "n2"]}}
    for job_id, status in (("a-1", {"phase": "Running", "placement": placement}), ("b-2", {"phase": "Queued"})):
        connection.execute(
            "INSERT INTO jobs (id, number, name, user, queue, phase, created_at, spec, status)"
            " VALUES (?, 1, 'a', 'ada', 'default', 'Queued', 0, '{}', ?)",
            (job_id, json.dumps(status)),
        )
    migrate(connection, file)
    written = connection.execute("SELECT id, status FROM jobs ORDER BY id").fetchall()
    assert [(job_id, json.loads(text)) for job_id, text in written] == [
        ("a-1", {"phase": "Running"}),
        ("b-2", {"phase": "Queued"}),
    ]
    ((job_id, text),) = connection.execute("SELECT job_id, fields FROM placements").fetchall()
    assert (job_id, json.loads(text)) == ("a-1", {"placement": placement})


def test_a_database_of_a_later_version_is_refused_and_left_as_it_is(tmp_path):
    file = tmp_path / "windlass.db"
    connection = connect(file)
    migrate(connection, file)
    connection.execute(f"PRAGMA user_version = {NEWEST + 1}")
    with pytest.raises(BackendError, match=f"later version .*schema {NEWEST + 1}, this one knows {NEWEST}"):
        migrate(connection, file)
    assert version_of(connection) == NEWEST + 1


def test_a_script_that_fails_leaves_the_version_before_it(tmp_path, monkeypatch):
    file, broken = tmp_path / "windlass.db", tmp_path / "9999_broken.sql"
    connection = connect(file)
    migrate(connection, file)
    broken.write_text("CREATE TABLE half (a); CREATE TABLE jobs (already_there);")
    monkeypatch.setattr(schema_migrations, "_SCRIPTS", [*schema_migrations._SCRIPTS, broken])
    with pytest.raises(sqlite3.DatabaseError, match="already exists"):
        migrate(connection, file)
    assert version_of(connection) == NEWEST
    assert not connection.execute("SELECT name FROM sqlite_master WHERE name = 'half'").fetchall()


def test_a_process_killed_amid_a_script_leaves_the_version_before_it(tmp_path, monkeypatch):
    file, script = tmp_path / "windlass.db", tmp_path / "9999_killed.sql"
    migrate(connect(file), file)
    script.write_text("CREATE TABLE half (a); SELECT killed();")
    if (child := os.fork()) == 0:
        connection = connect(file)
        connection.create_function("killed", 0, lambda: os.kill(os.getpid(), signal.SIGKILL))
        monkeypatch.setattr(schema_migrations, "_SCRIPTS", [*schema_migrations._SCRIPTS, script])
        migrate(connection, file)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    connection = connect(file)
    assert version_of(connection) == NEWEST
    assert not connection.execute("SELECT name FROM sqlite_master WHERE name = 'half'").fetchall()
