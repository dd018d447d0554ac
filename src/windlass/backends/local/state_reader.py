"""Reads the database. Queries use an index, and take a `limit` where results could be long."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec

from windlass.backends.local import commit_count
from windlass.backends.local.folder_access import check_access
from windlass.backends.local.paths import StatePaths
from windlass.backends.local.sealed_text import unseal
from windlass.backends.port import BackendError, Transition
from windlass.backends.status_fields import from_fields
from windlass.core.model.job import Job
from windlass.core.model.reasons import Verdict
from windlass.core.model.status import JobState, Phase, Status

_Fact = TypeVar("_Fact")
_decode_job = msgspec.json.Decoder(Job).decode
_decode_verdict = msgspec.json.Decoder(Verdict).decode

STATE_QUERY = (
    "SELECT id, number, spec, status, placements.fields FROM jobs LEFT JOIN placements ON placements.job_id = jobs.id"
)
"""Columns of `_states`; conditions and an order may follow."""
_MAX_PLACES = 1_000
"""Number of values in one query; SQLite limits it."""
_TASK = "SELECT job_id, generation, rank, role, replica, node, devices, pid, started, code, signal, detail FROM tasks"


@dataclass(frozen=True, slots=True)
class Task:
    """One rank of one generation.

    `pid` None: not started yet; `code` and `signal` None: not ended, or its end was not observed.
    """

    job_id: str
    generation: int
    rank: int
    role: str
    replica: int
    node: str
    devices: tuple[str, ...] = ()
    pid: int | None = None
    started: int | None = None
    """Clock ticks since boot; with the pid they identify the process uniquely."""
    code: int | None = None
    signal: int | None = None
    detail: str = ""


class CorruptError(BackendError):
    """The database is not in the format that Windlass writes."""

    def __init__(self, database: Path, what: str) -> None:
        super().__init__(
            f"{database} is damaged ({what}); to start with an empty one move it aside: "
            f"mv '{database}' '{database}.damaged'"
        )


class StateReader:
    """All queries. Methods raise CorruptError if the file cannot be read as a database."""

    def __init__(self, connection: sqlite3.Connection, database: Path) -> None:
        self._connection = connection
        self._database = database

    @classmethod
    def open(cls, paths: StatePaths) -> Self | None:
        """Opens the database for reading only, beside a controller; None if there is none, or not yet a table in it.

        Raises BackendError if other users can reach the folder, CorruptError.
        """
        if not paths.database.exists():
            return None
        check_access(paths.root)
        count = commit_count.read_count(paths)  # before the database, which a controller may be writing
        uri = paths.database.absolute().as_uri()
        try:
            try:
                connection = _readable(f"{uri}?mode=ro")
            except sqlite3.OperationalError:  # a folder that is not writable has no writer
                connection = _readable(f"{uri}?immutable=1")
        except sqlite3.OperationalError as error:
            raise BackendError(f"{paths.database}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise CorruptError(paths.database, str(error)) from error
        if connection is None:
            if count is not None:
                raise missing_commits(paths, count.number)
            return None
        records = cls(connection, paths.database)
        if count is not None and count.is_ahead_of(records.committed()):
            raise missing_commits(paths, count.number - records.committed())
        return records

    def close(self) -> None:
        """Closes the file."""
        self._connection.close()

    # --- jobs ----------------------------------------------------------------------------------------

    def job(self, job_id: str) -> JobState | None:
        """Returns a job by its id."""
        return next(iter(self._states(f"{STATE_QUERY} WHERE id = ?", (job_id,))), None)

    def jobs(
        self,
        *,
        phases: Collection[str] = (),
        failed_for: Collection[str] = (),
        name: Collection[str] = (),
        user: Collection[str] = (),
        queue: Collection[str] = (),
        first_come: bool = False,
        limit: int = 1_000,
    ) -> list[JobState]:
        """Returns jobs by phases and failure reasons (neither: all), names, users and queues.

        Latest first, or with `first_come` those that have not ended, oldest first. `limit` bounds the result.
        """
        tests = ["finished_at IS NULL"] if first_come else []
        values: list[Any] = []
        for column, wanted in (("name", name), ("user", user), ("queue", queue)):
            if wanted:
                tests.append(f"{column} IN ({_places(wanted)})")
                values += wanted
        if phases or failed_for:
            reason = f"phase = ? AND json_extract(status, '$.reason') IN ({_places(failed_for)})"
            tests.append(f"(phase IN ({_places(phases)}) OR {reason})")
            values += [*map(str, phases), str(Phase.FAILED), *failed_for]
        where = f"WHERE {' AND '.join(tests)}" if tests else ""
        order = "number, row" if first_come else "number DESC, row DESC"
        return self._states(f"{STATE_QUERY} {where} ORDER BY {order} LIMIT ?", (*values, limit))

    def alive(self) -> list[JobState]:
        """Returns every job that has not ended, oldest first."""
        return self._states(f"{STATE_QUERY} WHERE finished_at IS NULL ORDER BY number, row")

    def history(self, *, name: str = "", user: str = "", since: int | None = None, limit: int = 100) -> list[JobState]:
        """Returns ended jobs, the last to end first. `since`: ended at or after, in ms."""
        tests, values = ["finished_at >= ?"], [since or 0]
        for column, value in (("name", name), ("user", user)):
            if value:
                tests.append(f"{column} = ?")
                values.append(value)  # type: ignore[arg-type]  # a list of parameters holds both
        return self._states(
            f"{STATE_QUERY} WHERE {' AND '.join(tests)} ORDER BY finished_at DESC LIMIT ?", (*values, limit)
        )

    def last_time(self) -> int:
        """Returns the latest recorded time, in ms."""
        rows = self.rows("SELECT at FROM transitions ORDER BY number DESC LIMIT 1")
        return int(rows[0][0]) if rows else 0

    # --- history -----------------------------------------------------------------------------------------

    def transitions(self, job_id: str) -> list[Transition]:
        """Returns the job's transitions, oldest first."""
        query = "SELECT job_id, at, event, before, after, message FROM transitions WHERE job_id = ? ORDER BY number"
        rows = self.rows(query, (job_id,))
        return [Transition(*row) for row in rows]

    def events(self, after: int, job_ids: Collection[str] = (), limit: int = 1_000) -> list[tuple[int, Transition]]:
        """Returns numbered transitions of some jobs (none named: of all) after event number `after`, oldest first."""
        columns = "number, job_id, at, event, before, after, message"
        chosen = f"job_id IN ({_places(job_ids)}) AND" if job_ids else ""
        query = f"SELECT {columns} FROM transitions WHERE {chosen} number > ? ORDER BY number LIMIT ?"  # noqa: S608 - only `?`
        return [(row[0], Transition(*row[1:])) for row in self.rows(query, (*job_ids, after, limit))]

    def tasks(self, job_id: str, generation: int | None = None) -> list[Task]:
        """Returns the ranks of one generation, or of all, in order."""
        of_generation = "" if generation is None else "AND generation = ?"
        values = (job_id,) if generation is None else (job_id, generation)
        rows = self.rows(f"{_TASK} WHERE job_id = ? {of_generation} ORDER BY generation, rank", values)
        try:
            return [replace(Task(*row), devices=tuple(json.loads(row[6]))) for row in rows]
        except (TypeError, ValueError) as error:
            raise CorruptError(self._database, str(error)) from error

    def last_nodes(self, job_ids: Sequence[str]) -> dict[str, list[str]]:
        """Returns the nodes of the last generation of jobs by id, in the order of ranks."""
        found: dict[str, list[str]] = {}
        for start in range(0, len(job_ids), _MAX_PLACES):
            some = job_ids[start : start + _MAX_PLACES]
            query = (
                "SELECT job_id, node FROM tasks AS last WHERE generation = "  # noqa: S608 - only `?`
                "(SELECT max(generation) FROM tasks WHERE job_id = last.job_id) "
                f"AND job_id IN ({_places(some)}) GROUP BY job_id, node ORDER BY job_id, min(rank)"
            )
            for job_id, node in self.rows(query, tuple(some)):
                found.setdefault(job_id, []).append(node)
        return found

    def verdict(self, job_id: str) -> Verdict | None:
        """Returns the last recorded reason for waiting."""
        rows = self.rows("SELECT verdict FROM verdicts WHERE job_id = ?", (job_id,))
        try:
            return _decode_verdict(rows[0][0]) if rows else None
        except msgspec.MsgspecError as error:
            raise CorruptError(self._database, str(error)) from error

    def committed(self) -> int:
        """Returns the number of commits so far, except those of versions that did not count them."""
        return self.number(commit_count.KEY) or 0

    def number(self, key: str) -> int | None:
        """Returns a fact that is a number. Raises CorruptError."""
        text = self.meta(key)
        try:
            return None if text is None else int(text)
        except ValueError as error:
            raise CorruptError(self._database, f"{key} is {text!r}") from error

    def decoded(self, key: str, kind: type[_Fact]) -> _Fact | None:
        """Returns a fact that is stored as JSON. Raises CorruptError."""
        text = self.meta(key)
        try:
            return None if text is None else msgspec.json.decode(text, type=kind)
        except msgspec.MsgspecError as error:
            raise CorruptError(self._database, f"{key}: {error}") from error

    def last_number(self) -> int:
        """Returns the highest number of any job; 0 without jobs."""
        return int(self.rows("SELECT coalesce(max(number), 0) FROM jobs")[0][0])

    def meta(self, key: str) -> str | None:
        """Returns a fact about the whole folder."""
        rows = self.rows("SELECT value FROM meta WHERE key = ?", (key,))
        return str(rows[0][0]) if rows else None

    # --- internals ---------------------------------------------------------------------------------------

    def _states(self, query: str, values: Iterable[Any] = ()) -> list[JobState]:
        rows = self.rows(query, values)
        try:
            return [_read_state(*row) for row in rows]
        except (msgspec.MsgspecError, TypeError, ValueError) as error:
            raise CorruptError(self._database, str(error)) from error

    def rows(self, query: str, values: Iterable[Any] = ()) -> list[Any]:
        """Returns the rows of a query with `?` for each value; for modules of this package."""
        try:
            return self._connection.execute(query, tuple(values)).fetchall()
        except sqlite3.OperationalError as error:
            raise BackendError(f"{self._database}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise CorruptError(self._database, str(error)) from error


def _places(values: Collection[str]) -> str:
    return ", ".join("?" * len(values))


def _readable(uri: str) -> sqlite3.Connection | None:
    """Opens a database; None if its first controller has not created the tables yet."""
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=5)
    if not connection.execute("PRAGMA user_version").fetchone()[0]:
        connection.close()
        return None
    connection.execute("SELECT value FROM meta LIMIT 1").fetchall()
    return connection


def missing_commits(paths: StatePaths, number: int) -> CorruptError:
    """Returns the error for a database that lacks commits."""
    return CorruptError(
        paths.database, f"its last {number} commits are missing; to go on without them: rm '{paths.commit_count}'"
    )


def _read_state(job_id: str, number: int, spec: str, status: str, placements: str | None) -> JobState:
    job = _decode_job(unseal(spec, f"{job_id} {number}"))
    return JobState(job_id, number, job, _read_status(job_id, status, placements))


def _read_status(job_id: str, text: str, placements: str | None) -> Status:
    fields = msgspec.json.decode(unseal(text, job_id))
    return from_fields(fields if placements is None else fields | msgspec.json.decode(unseal(placements, job_id)))
