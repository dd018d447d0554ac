"""Writes the database: SQLite in WAL mode, one transaction per turn of the controller.

The changes of a turn and the backend's own notes (started and ended ranks, acknowledged reports of the supervisor)
become durable together or not at all. A gang's placement, 240 KB for 5,000 members, is written when it changes, and not
with each status: the store keeps the placements of the gangs that hold nodes in memory, and nothing else.
"""

from __future__ import annotations

import contextlib
import errno
import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import msgspec

from windlass.backends.local import commit_count
from windlass.backends.local.integrity_check import check_integrity
from windlass.backends.local.paths import StatePaths, create_file
from windlass.backends.local.schema_migrations import migrate
from windlass.backends.local.sealed_text import seal
from windlass.backends.local.state_reader import STATE_QUERY, CorruptError, StateReader, Task, missing_commits
from windlass.backends.port import BackendError, Changes
from windlass.backends.status_fields import PLACEMENTS, to_fields
from windlass.core.lifecycle.timers import expiry_of
from windlass.core.model.reasons import Verdict
from windlass.core.model.status import JobState, Placement
from windlass.jobs.secret_values import hide_secrets

_STARTED = "UPDATE tasks SET pid = ?, started = ? WHERE job_id = ? AND generation = ? AND rank = ?"
_ENDED = "UPDATE tasks SET code = ?, signal = ?, detail = ? WHERE job_id = ? AND generation = ? AND rank = ?"
_ENVIRONMENT_OF = "SELECT number, text FROM environments WHERE number = (SELECT environment FROM jobs WHERE id = ?)"
_FORGET_ENVIRONMENT = (
    "DELETE FROM environments WHERE number = ? AND NOT EXISTS (SELECT 1 FROM jobs WHERE environment = ?)"
)
"""Environments are stored once for all jobs that have them: the last of these jobs takes its environment along."""
_BUSY_TIMEOUT_MS = 5_000
SCHEDULE_KEY = "schedule "
"""First part of the keys of schedules: facts of the folder, which earlier versions leave as they are."""
_encode = msgspec.json.encode
_Placements: TypeAlias = tuple[Placement | None, Placement | None]
"""The values of the fields `PLACEMENTS` of one status."""
_NO_PLACEMENTS: _Placements = (None, None)


class SubmissionOrigin(NamedTuple):
    """The environment that a job's ranks inherit (None: the controller's), and the client that it must not outlive.

    `schedules`: texts of schedules by name, which are written together with the job.
    """

    environment: Mapping[str, str] | None = None
    owner: str = ""
    schedules: Mapping[str, str] = MappingProxyType({})


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
    schedules: dict[str, str | None] = field(default_factory=dict)
    """Texts of schedules by name; None: the schedule is deleted."""


class StateStore(StateReader):
    """The only writer of the database, created by `open_store`."""

    def __init__(self, connection: sqlite3.Connection, paths: StatePaths) -> None:
        super().__init__(connection, paths.database)
        self._committed = self.committed()
        self._count = commit_count.CommitCountFile(paths)
        self._written: dict[str, _Placements] = {}
        """The placements in the database, by job."""
        self._removed_environment = True
        """Whether the write-ahead log may still contain an environment or a secret that was removed."""

    def recoverable(self) -> list[JobState]:
        """Returns every job that has not ended, and every ended job with a ttl, in order of submission."""
        states = self._states(f"{STATE_QUERY} WHERE finished_at IS NULL OR kept_until IS NOT NULL ORDER BY number, row")
        self._note_placements(states)
        return states

    def unremoved(self) -> list[str]:
        """Returns forgotten jobs whose logs may still exist."""
        return [row[0] for row in self.rows("SELECT job_id FROM outbox")]

    def note(self, notes: Notes) -> None:
        """Writes notes outside a turn. Raises BackendError."""
        self.commit(Changes(), notes)

    def close(self) -> None:
        """Closes the files."""
        super().close()
        self._count.close()

    def commit(self, changes: Changes, notes: Notes) -> None:
        """Makes a turn durable, completely or not at all. Raises BackendError."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                for state in changes.states:
                    self._put(state, notes.origins.get(state.id), is_redescribed=state.id in changes.redescribed)
                    self._put_placements(state)
                notes.meta[commit_count.KEY] = str(self._committed + 1)
                self._write(changes, notes)
                self._connection.execute("COMMIT")
                self._committed += 1
                self._count.write(self._committed)
                self._note_placements(changes.states)
                self._erase_removed()
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        except sqlite3.DatabaseError as error:
            raise _explained(self._database, error) from error

    def _write(self, changes: Changes, notes: Notes) -> None:
        """Writes all of a turn but the jobs themselves."""
        # 1. the history of jobs
        self._many(
            "INSERT INTO transitions (job_id, at, event, before, after, message) VALUES (?, ?, ?, ?, ?, ?)",
            [(t.job_id, t.at, t.event, t.before, t.after, t.message) for t in changes.transitions],
        )
        # 2. their ranks
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
        # 3. jobs to forget
        for job_id in changes.forgotten:
            self._forget(job_id)
        self._many("DELETE FROM outbox WHERE job_id = ?", [(job_id,) for job_id in notes.removed])
        # 4. schedules
        for name, text in notes.schedules.items():
            self._put_schedule(name, text)
        # 5. the folder's own facts
        self._many("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", notes.meta.items())

    def _put(self, state: JobState, origin: SubmissionOrigin | None, *, is_redescribed: bool) -> None:
        status, finished = state.status, state.status.finished_at
        kept_until = None if finished is None else expiry_of(state)
        changing = (status.phase.value, finished, kept_until, _sealed(to_fields(status, without=PLACEMENTS), state.id))
        update = "UPDATE jobs SET phase = ?, finished_at = ?, kept_until = ?, status = ? WHERE id = ?"
        if not self._connection.execute(update, (*changing, state.id)).rowcount:
            job, number, created_at = state.job, state.number, status.created_at
            array_id = job.array.array_id if job.array else None
            spec = _spec_of(state)
            fixed = (state.id, number, job.name, array_id, job.user, job.queue, created_at, spec)
            self._insert(changing, fixed, origin or SubmissionOrigin())
        elif is_redescribed:
            self._connection.execute("UPDATE jobs SET spec = ? WHERE id = ?", (_spec_of(state), state.id))
        if finished is not None:
            self._reduce_environment(state.id)
            self._hide_secrets(state)

    def _insert(self, changing: tuple[Any, ...], fixed: tuple[Any, ...], origin: SubmissionOrigin) -> None:
        environment = None if origin.environment is None else self._environment(_environment_text(origin.environment))
        self._connection.execute(
            "INSERT INTO jobs (phase, finished_at, kept_until, status, id, number, name, array_id, user, queue,"
            " created_at, spec, environment, owner) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*changing, *fixed, environment, origin.owner or None),
        )
        for name, text in origin.schedules.items():
            self._put_schedule(name, text)

    def _put_schedule(self, name: str, text: str | None) -> None:
        if text is None:
            self._connection.execute("DELETE FROM meta WHERE key = ?", (f"{SCHEDULE_KEY}{name}",))
            self._removed_environment = True
        else:
            row = (f"{SCHEDULE_KEY}{name}", text)
            self._connection.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", row)

    def _put_placements(self, state: JobState) -> None:
        placements = (state.status.placement, state.status.resize_to)
        if placements == self._written.get(state.id, _NO_PLACEMENTS):
            return
        fields = {name: value for name, value in zip(PLACEMENTS, placements, strict=True) if value is not None}
        if fields:
            row = (state.id, _sealed(fields, state.id))
            self._connection.execute("INSERT OR REPLACE INTO placements (job_id, fields) VALUES (?, ?)", row)
        else:
            self._connection.execute("DELETE FROM placements WHERE job_id = ?", (state.id,))

    def _note_placements(self, states: Iterable[JobState]) -> None:
        """Remembers the placements in the database."""
        for state in states:
            placements = (state.status.placement, state.status.resize_to)
            if placements == _NO_PLACEMENTS:
                self._written.pop(state.id, None)
            else:
                self._written[state.id] = placements

    def _environment(self, text: str) -> int:
        self._connection.execute("INSERT OR IGNORE INTO environments (text) VALUES (?)", (text,))
        return int(self._connection.execute("SELECT number FROM environments WHERE text = ?", (text,)).fetchone()[0])

    def _reduce_environment(self, job_id: str, *, is_forgotten: bool = False) -> None:
        """Removes the secrets from the environment of an ended job, or all of it if the job is forgotten."""
        row = self._connection.execute(_ENVIRONMENT_OF, (job_id,)).fetchone()
        if row is None:
            return
        number, text = row
        kept = None if is_forgotten else self._environment(_without_secrets(text))
        if kept != number:
            self._connection.execute("UPDATE jobs SET environment = ? WHERE id = ?", (kept, job_id))
            removed = self._connection.execute(_FORGET_ENVIRONMENT, (number, number)).rowcount
            self._removed_environment |= bool(removed)

    def _hide_secrets(self, state: JobState) -> None:
        """Hides secrets in the record of an ended job, which is never started again."""
        shown = hide_secrets(state.job)
        if shown != state.job:
            self._connection.execute("UPDATE jobs SET spec = ? WHERE id = ?", (_encode(shown).decode(), state.id))
            self._removed_environment = True

    def _erase_removed(self) -> None:
        """Empties the write-ahead log after the removal of an environment; at a later turn if a reader uses the log."""
        if not self._removed_environment:
            return
        with contextlib.suppress(sqlite3.DatabaseError):  # a full disk: tried again at the next turn
            self._connection.execute("PRAGMA busy_timeout = 0")
            busy = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            self._removed_environment = bool(busy)
        self._connection.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")

    def _forget(self, job_id: str) -> None:
        self._reduce_environment(job_id, is_forgotten=True)
        self._connection.execute("DELETE FROM jobs WHERE id = ?", (job_id,))
        self._connection.execute("DELETE FROM transitions WHERE job_id = ?", (job_id,))
        self._connection.execute("DELETE FROM placements WHERE job_id = ?", (job_id,))
        self._connection.execute("DELETE FROM tasks WHERE job_id = ?", (job_id,))
        self._connection.execute("DELETE FROM verdicts WHERE job_id = ?", (job_id,))
        self._connection.execute("INSERT OR IGNORE INTO outbox (job_id) VALUES (?)", (job_id,))

    def _many(self, statement: str, rows: Iterable[Any]) -> None:
        rows = list(rows)
        if rows:
            self._connection.executemany(statement, rows)


def _environment_text(variables: Mapping[str, str]) -> str:
    return json.dumps(dict(variables), sort_keys=True)


@lru_cache(maxsize=16)
def _without_secrets(text: str) -> str:
    """The text of an environment without secrets; jobs that end one after the other often have the same."""
    from windlass.jobs.kept_environment import without_secrets  # noqa: PLC0415 - at the first end of a job

    return _environment_text(without_secrets(json.loads(text)))


def _spec_of(state: JobState) -> str:
    return _sealed(state.job, f"{state.id} {state.number}")


def _sealed(value: object, owner: str) -> str:
    return seal(_encode(value).decode(), owner)


def open_store(paths: StatePaths) -> StateStore:
    """Opens the database for writing, or creates it. The caller holds the lock. Raises BackendError, CorruptError."""
    if not paths.database.exists():
        paths.commit_count.unlink(missing_ok=True)
    count = commit_count.read_count(paths)
    try:
        _close_to_others(paths.database)
        connection = sqlite3.connect(paths.database, isolation_level=None, timeout=_BUSY_TIMEOUT_MS / 1000)
        for setting in (
            "journal_mode = WAL",
            "synchronous = NORMAL",
            "journal_size_limit = 16777216",
            "secure_delete = ON",
        ):
            connection.execute(f"PRAGMA {setting}")
        if count is not None and not connection.execute("PRAGMA user_version").fetchone()[0]:
            raise missing_commits(paths, count.number)
        migrate(connection, paths.database)
        check_integrity(connection, paths.database)
        store = StateStore(connection, paths)
    except sqlite3.DatabaseError as error:
        raise _explained(paths.database, error) from error
    if count is not None and count.is_ahead_of(store.committed()):
        raise missing_commits(paths, count.number - store.committed())
    return store


def _close_to_others(database: Path) -> None:
    """Creates the database file with mode 0600 before SQLite does; the files beside it get the mode of this one."""
    create_file(database)
    for suffix in ("-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            database.with_name(database.name + suffix).chmod(0o600)


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
