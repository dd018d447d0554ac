"""Reads the database. Queries use an index, and take a `limit` where results could be long."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import msgspec

from windlass.backends.local.folder_access import check_access
from windlass.backends.local.paths import StatePaths
from windlass.backends.port import BackendError, Transition
from windlass.backends.status_fields import from_fields
from windlass.core.model.job import Job
from windlass.core.model.reasons import Verdict
from windlass.core.model.status import JobState, Phase, Status

_decode_job = msgspec.json.Decoder(Job).decode
_decode_verdict = msgspec.json.Decoder(Verdict).decode

STATE_QUERY = (
    "SELECT id, number, spec, status, placements.fields FROM jobs LEFT JOIN placements ON placements.job_id = jobs.id"
)
"""Columns of `_states`; conditions and an order may follow."""
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
        """Opens the database for reading only, beside a controller; None if there is no database yet.

        Raises BackendError if other users can reach the folder.
        """
        if not paths.database.exists():
            return None
        check_access(paths.root)
        uri = paths.database.absolute().as_uri()
        try:
            return cls(_readable(f"{uri}?mode=ro"), paths.database)
        except sqlite3.OperationalError:  # a folder that is not writable has no writer
            return cls(_readable(f"{uri}?immutable=1"), paths.database)
        except sqlite3.DatabaseError as error:
            raise CorruptError(paths.database, str(error)) from error

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
        return [replace(Task(*row), devices=tuple(json.loads(row[6]))) for row in rows]

    def verdict(self, job_id: str) -> Verdict | None:
        """Returns the last recorded reason for waiting."""
        rows = self.rows("SELECT verdict FROM verdicts WHERE job_id = ?", (job_id,))
        return _decode_verdict(rows[0][0]) if rows else None

    def meta(self, key: str) -> str | None:
        """Returns a fact about the whole folder."""
        rows = self.rows("SELECT value FROM meta WHERE key = ?", (key,))
        return str(rows[0][0]) if rows else None

    # --- internals ---------------------------------------------------------------------------------------

    def _states(self, query: str, values: Iterable[Any] = ()) -> list[JobState]:
        rows = self.rows(query, values)
        try:
            return [JobState(row[0], row[1], _decode_job(row[2]), _read_status(row[3], row[4])) for row in rows]
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


def _readable(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=5)
    connection.execute("SELECT value FROM meta LIMIT 1").fetchall()
    return connection


def _read_status(text: str, placements: str | None) -> Status:
    fields = msgspec.json.decode(text)
    return from_fields(fields if placements is None else fields | msgspec.json.decode(placements))
