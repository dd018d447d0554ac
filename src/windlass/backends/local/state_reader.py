"""Reads the database. Queries use an index, and take a `limit` where results could be long."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import msgspec

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
_NAMES_LOOKED_AT = 2_000


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


class UnknownJobError(LookupError):
    """No job or array has this name or id; the text names the nearest ones."""


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
        """Opens the database for reading only, beside a controller; None if there is no database yet."""
        if not paths.database.exists():
            return None
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

    def latest(self, name: str) -> JobState | None:
        """Returns the most recently submitted job of this name."""
        return next(
            iter(self._states(f"{STATE_QUERY} WHERE name = ? ORDER BY number DESC, row DESC LIMIT 1", (name,))), None
        )

    def members(self, array_id: str) -> list[str]:
        """Returns the ids of an array's jobs, in order; empty if the id is no array."""
        return [
            row[0] for row in self._rows("SELECT id FROM jobs WHERE array_id = ? ORDER BY number, row", (array_id,))
        ]

    def resolve(self, text: str) -> str:
        """Returns the id for a user's text: an id, else the latest job (or array) of that name, else an array's id.

        Raises UnknownJobError with the nearest names.
        """
        if self._rows("SELECT 1 FROM jobs WHERE id = ?", (text,)):
            return text
        named = self._rows(
            "SELECT id, array_id FROM jobs WHERE name = ? ORDER BY number DESC, row DESC LIMIT 1", (text,)
        )
        if named:
            job_id, array_id = named[0]
            return str(array_id or job_id)
        if self._rows("SELECT 1 FROM jobs WHERE array_id = ? LIMIT 1", (text,)):
            return text
        raise UnknownJobError(self._unknown(text))

    def _unknown(self, text: str) -> str:
        rows = self._rows("SELECT DISTINCT name, id FROM jobs ORDER BY number DESC LIMIT ?", (_NAMES_LOOKED_AT,))
        import difflib  # noqa: PLC0415 - only for a misspelled name

        known = dict.fromkeys(word for row in rows for word in row)
        near = difflib.get_close_matches(text, known, n=3)
        hint = f"; did you mean {', '.join(near)}?" if near else "; `windlass history` lists those that ended"
        return f"no job is called {text!r}{hint}"

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

    def owners(self) -> dict[str, str]:
        """Returns jobs that have not ended and must not outlive their client, with the client."""
        return dict(self._rows("SELECT id, owner FROM jobs WHERE owner IS NOT NULL AND finished_at IS NULL"))

    def owner(self, job_id: str) -> str:
        """Returns the client that the job must not outlive; "" for none."""
        rows = self._rows("SELECT owner FROM jobs WHERE id = ? AND owner IS NOT NULL", (job_id,))
        return str(rows[0][0]) if rows else ""

    def last_time(self) -> int:
        """Returns the latest recorded time, in ms."""
        rows = self._rows("SELECT at FROM transitions ORDER BY number DESC LIMIT 1")
        return int(rows[0][0]) if rows else 0

    def count(self) -> int:
        """Returns the number of recorded jobs."""
        return int(self._rows("SELECT count(*) FROM jobs")[0][0])

    # --- history -----------------------------------------------------------------------------------------

    def transitions(self, job_id: str) -> list[Transition]:
        """Returns the job's transitions, oldest first."""
        query = "SELECT job_id, at, event, before, after, message FROM transitions WHERE job_id = ? ORDER BY number"
        rows = self._rows(query, (job_id,))
        return [Transition(*row) for row in rows]

    def events(self, after: int, job_ids: Collection[str] = (), limit: int = 1_000) -> list[tuple[int, Transition]]:
        """Returns numbered transitions of some jobs (none named: of all) after event number `after`, oldest first."""
        columns = "number, job_id, at, event, before, after, message"
        chosen = f"job_id IN ({_places(job_ids)}) AND" if job_ids else ""
        query = f"SELECT {columns} FROM transitions WHERE {chosen} number > ? ORDER BY number LIMIT ?"  # noqa: S608 - only `?`
        return [(row[0], Transition(*row[1:])) for row in self._rows(query, (*job_ids, after, limit))]

    def tasks(self, job_id: str, generation: int | None = None) -> list[Task]:
        """Returns the ranks of one generation, or of all, in order."""
        if generation is None:
            return self._tasks(f"{_TASK} WHERE job_id = ? ORDER BY generation, rank", (job_id,))
        return self._tasks(f"{_TASK} WHERE job_id = ? AND generation = ? ORDER BY rank", (job_id, generation))

    def verdict(self, job_id: str) -> Verdict | None:
        """Returns the last recorded reason for waiting."""
        rows = self._rows("SELECT verdict FROM verdicts WHERE job_id = ?", (job_id,))
        return _decode_verdict(rows[0][0]) if rows else None

    def environment(self, job_id: str) -> Mapping[str, str] | None:
        """Returns the environment of the client that submitted the job, if it was sent."""
        join = "SELECT text FROM environments JOIN jobs ON jobs.environment = environments.number WHERE jobs.id = ?"
        rows = self._rows(join, (job_id,))
        return dict(json.loads(rows[0][0])) if rows else None

    def meta(self, key: str) -> str | None:
        """Returns a fact about the whole folder."""
        rows = self._rows("SELECT value FROM meta WHERE key = ?", (key,))
        return str(rows[0][0]) if rows else None

    # --- internals ---------------------------------------------------------------------------------------

    def _states(self, query: str, values: Iterable[Any] = ()) -> list[JobState]:
        rows = self._rows(query, values)
        try:
            return [JobState(row[0], row[1], _decode_job(row[2]), _read_status(row[3], row[4])) for row in rows]
        except (msgspec.MsgspecError, TypeError, ValueError) as error:
            raise CorruptError(self._database, str(error)) from error

    def _tasks(self, query: str, values: Iterable[Any] = ()) -> list[Task]:
        rows = self._rows(query, values)
        return [replace(Task(*row), devices=tuple(json.loads(row[6]))) for row in rows]

    def _rows(self, query: str, values: Iterable[Any] = ()) -> list[Any]:
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
