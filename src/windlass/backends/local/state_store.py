"""Writes the database: SQLite in WAL mode, one transaction per turn of the controller.

The changes of a turn and the backend's own notes (started and ended ranks, acknowledged reports of the supervisor)
become durable together or not at all. Nothing is kept in memory, so the store does not grow with the jobs.
"""

from __future__ import annotations

import errno
import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from windlass.backends.local.paths import StatePaths
from windlass.backends.local.schema_migrations import migrate
from windlass.backends.local.state_reader import CorruptError, StateReader, Task
from windlass.backends.port import BackendError, Changes
from windlass.backends.status_fields import to_fields
from windlass.core.model.reasons import Verdict
from windlass.core.model.status import JobState

_STARTED = "UPDATE tasks SET pid = ?, started = ? WHERE job_id = ? AND generation = ? AND rank = ?"
_ENDED = "UPDATE tasks SET code = ?, signal = ?, detail = ? WHERE job_id = ? AND generation = ? AND rank = ?"
_FORGET_ENVIRONMENT = (
    "DELETE FROM environments WHERE number = (SELECT environment FROM jobs WHERE id = ?)"
    " AND NOT EXISTS (SELECT 1 FROM jobs WHERE environment = environments.number AND id != ?)"
)
"""Environments are stored once for all jobs that have them: the last of these jobs takes its environment along."""
_encode = msgspec.json.encode


class SubmissionOrigin(NamedTuple):
    """The environment that a job's ranks inherit (None: the controller's), and the client that it must not outlive."""

    environment: Mapping[str, str] | None = None
    owner: str = ""


@dataclass(slots=True)
class Notes:
    """The backend's own additions to a turn."""

    tasks: list[Task] = field(default_factory=list)
    started: list[tuple[int, int, str, int, int]] = field(default_factory=list)
    """pid, start ticks, job, generation, rank"""
    ended: list[tuple[int | None, int | None, str, str, int, int]] = field(default_factory=list)
    """code, signal, detail, job, generation, rank"""
    origins: dict[str, SubmissionOrigin] = field(default_factory=dict)
    meta: dict[str, str] = field(default_factory=dict)
    verdicts: dict[str, tuple[int, Verdict]] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    """Forgotten jobs whose logs were removed."""


class StateStore(StateReader):
    """The only writer of the database, created by `open_store`."""

    def recoverable(self) -> list[JobState]:
        """Returns every job that has not ended, and every ended job with a ttl, in order of submission."""
        query = "SELECT id, number, spec, status FROM jobs WHERE finished_at IS NULL OR kept_until IS NOT NULL"
        return self._states(f"{query} ORDER BY number, row")

    def unremoved(self) -> list[str]:
        """Returns forgotten jobs whose logs may still exist."""
        return [row[0] for row in self._rows("SELECT job_id FROM outbox")]

    def note(self, notes: Notes) -> None:
        """Writes notes outside a turn. Raises BackendError."""
        self.commit(Changes(), notes)

    def commit(self, changes: Changes, notes: Notes) -> None:
        """Makes a turn durable, completely or not at all. Raises BackendError."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._write(changes, notes)
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        except sqlite3.DatabaseError as error:
            raise _explained(self._database, error) from error

    def _write(self, changes: Changes, notes: Notes) -> None:
        # 1. jobs
        for state in changes.states:
            self._put(state, notes.origins.get(state.id))
        # 2. their history
        self._many(
            "INSERT INTO transitions (job_id, at, event, before, after, message) VALUES (?, ?, ?, ?, ?, ?)",
            [(t.job_id, t.at, t.event, t.before, t.after, t.message) for t in changes.transitions],
        )
        # 3. their ranks
        self._many(
            "INSERT OR REPLACE INTO tasks (job_id, generation, rank, role, replica, node, devices)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(t.job_id, t.generation, t.rank, t.role, t.replica, t.node, json.dumps(t.devices)) for t in notes.tasks],
        )
        self._many(_STARTED, notes.started)
        self._many(_ENDED, notes.ended)
        self._many(
            "INSERT OR REPLACE INTO verdicts (job_id, at, verdict) VALUES (?, ?, ?)",
            [(job_id, at, _encode(verdict).decode()) for job_id, (at, verdict) in notes.verdicts.items()],
        )
        # 4. jobs to forget
        for job_id in changes.forgotten:
            self._forget(job_id)
        self._many("DELETE FROM outbox WHERE job_id = ?", [(job_id,) for job_id in notes.removed])
        # 5. the folder's own facts
        self._many("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", notes.meta.items())

    def _put(self, state: JobState, origin: SubmissionOrigin | None) -> None:
        status, finished = state.status, state.status.finished_at
        kept_until = None if finished is None or state.job.ttl is None else finished + state.job.ttl
        changing = (status.phase.value, finished, kept_until, _encode(to_fields(status)).decode())
        update = "UPDATE jobs SET phase = ?, finished_at = ?, kept_until = ?, status = ? WHERE id = ?"
        if self._connection.execute(update, (*changing, state.id)).rowcount:
            return
        job, origin = state.job, origin or SubmissionOrigin()
        array_id = job.array.array_id if job.array else None
        environment = None if origin.environment is None else self._environment(origin.environment)
        fixed = (
            state.id,
            state.number,
            job.name,
            array_id,
            job.user,
            job.queue,
            status.created_at,
            _encode(job).decode(),
        )
        self._connection.execute(
            "INSERT INTO jobs (phase, finished_at, kept_until, status, id, number, name, array_id, user, queue,"
            " created_at, spec, environment, owner) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*changing, *fixed, environment, origin.owner or None),
        )

    def _environment(self, variables: Mapping[str, str]) -> int:
        text = json.dumps(dict(variables), sort_keys=True)
        self._connection.execute("INSERT OR IGNORE INTO environments (text) VALUES (?)", (text,))
        return int(self._connection.execute("SELECT number FROM environments WHERE text = ?", (text,)).fetchone()[0])

    def _forget(self, job_id: str) -> None:
        self._connection.execute(_FORGET_ENVIRONMENT, (job_id, job_id))
        self._connection.execute("DELETE FROM jobs WHERE id = ?", (job_id,))
        self._connection.execute("DELETE FROM transitions WHERE job_id = ?", (job_id,))
        self._connection.execute("DELETE FROM tasks WHERE job_id = ?", (job_id,))
        self._connection.execute("DELETE FROM verdicts WHERE job_id = ?", (job_id,))
        self._connection.execute("INSERT OR IGNORE INTO outbox (job_id) VALUES (?)", (job_id,))

    def _many(self, statement: str, rows: Iterable[Any]) -> None:
        rows = list(rows)
        if rows:
            self._connection.executemany(statement, rows)


def open_store(paths: StatePaths) -> StateStore:
    """Opens the database for writing, or creates it. The caller holds the lock. Raises BackendError, CorruptError."""
    try:
        connection = sqlite3.connect(paths.database, isolation_level=None, timeout=5)
        for setting in ("journal_mode = WAL", "synchronous = NORMAL", "journal_size_limit = 16777216"):
            connection.execute(f"PRAGMA {setting}")
        migrate(connection, paths.database)
        paths.database.chmod(0o600)
    except sqlite3.DatabaseError as error:
        raise _explained(paths.database, error) from error
    return StateStore(connection, paths.database)


def move_aside(paths: StatePaths) -> Path:
    """Moves a damaged database away, as requested by the user. Returns its new path."""
    number = 1
    while (target := paths.database.with_name(f"windlass.db.damaged.{number}")).exists():
        number += 1
    for suffix in ("", "-wal", "-shm"):
        part = Path(f"{paths.database}{suffix}")
        if part.exists():
            part.rename(f"{target}{suffix}")
    return target


def _explained(database: Path, error: sqlite3.DatabaseError) -> BackendError:
    """Turns a database error into one line for people."""
    code = getattr(error, "sqlite_errorname", "")
    if code.startswith("SQLITE_FULL"):
        return BackendError(f"{database}: the disk is full; nothing was changed, free some space")
    if code.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return BackendError(
            f"{database} cannot be written ({error}); make it writable, or name another folder in WINDLASS_STATE"
        )
    if code.startswith("SQLITE_IOERR"):
        return BackendError(
            f"{database}: {error} (often a full disk: {errno.errorcode[errno.ENOSPC]}); nothing was changed"
        )
    if code.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return CorruptError(database, str(error))
    return BackendError(f"{database}: {error}")
