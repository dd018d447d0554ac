"""Where history is kept: an embedded SQLite file, or PostgreSQL. Both take the same statements, with `?` for values."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias
from urllib.parse import urlsplit

from windlass.backends.errors import BackendError

Row: TypeAlias = tuple[Any, ...]
Write: TypeAlias = tuple[str, Sequence[Row]]
"""A statement, and the values for each time it is to be carried out."""
_PATIENCE = 5
"""Seconds to wait for a lock of SQLite, and for a connection to PostgreSQL."""
_PAUSE = 0.05
_ANSWER = 30_000
"""Milliseconds that PostgreSQL may take for one statement."""


class HistoryError(BackendError):
    """History cannot be read or written now. `hopeless`: nor later, for what is to be written is the trouble."""

    def __init__(self, text: str, *, hopeless: bool = False) -> None:
        super().__init__(text)
        self.hopeless = hopeless


class Database(Protocol):
    """One connection, of one thread at a time. Methods raise HistoryError."""

    def prepare(self, statements: Iterable[str]) -> None:
        """Carry these out, all or none, by one process at a time: they make the tables."""

    def write(self, writes: Iterable[Write]) -> None:
        """All of it, or nothing."""

    def rows(self, query: str, values: Iterable[Any] = ()) -> list[Row]:
        """What a query finds."""

    def size(self) -> int | None:
        """Bytes in use, if it is ours to look after them."""

    def close(self) -> None:
        """Let go of it."""


def check_url(url: str) -> None:
    """Raises HistoryError if this names no database."""
    scheme = urlsplit(url).scheme
    if scheme not in ("sqlite", "postgresql", "postgres") or (scheme == "sqlite" and not _file(url)):
        raise HistoryError(
            f"history cannot be kept in {_without_password(url)!r}: say sqlite:///path/of/a/file, "
            "or postgresql://user@host/database"
        )


def connect(url: str) -> Database:
    """Raises HistoryError."""
    return SQLite(_file(url)) if urlsplit(url).scheme == "sqlite" else PostgreSQL(url)


class SQLite:
    """A file, made if it is not there, in WAL mode: readers do not wait for the writer."""

    def __init__(self, file: str) -> None:
        self._file = file
        try:
            Path(file).parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(file, isolation_level=None, timeout=_PATIENCE, check_same_thread=False)
            self._write_ahead()
            for setting in ("synchronous = NORMAL", "journal_size_limit = 16777216"):
                self._connection.execute(f"PRAGMA {setting}")
        except (sqlite3.Error, OSError) as error:
            raise self._trouble(error) from error

    def _write_ahead(self) -> None:
        """SQLite waits for nobody here: a new file that another connection is just changing is locked at once."""
        give_up = time.monotonic() + _PATIENCE
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError:
                if time.monotonic() > give_up:
                    raise
                time.sleep(_PAUSE)
            else:
                return

    def prepare(self, statements: Iterable[str]) -> None:
        """In one transaction, which is the only one that writes."""
        with self._transaction():
            for statement in statements:
                self._connection.execute(statement)

    def write(self, writes: Iterable[Write]) -> None:
        """In one transaction."""
        with self._transaction():
            for statement, rows in writes:
                self._connection.executemany(statement, rows)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        except OverflowError as error:  # of a number that has more than 64 bits
            raise HistoryError(f"history in {self._file}: {error}", hopeless=True) from error
        except sqlite3.Error as error:
            raise self._trouble(error) from error

    def rows(self, query: str, values: Iterable[Any] = ()) -> list[Row]:
        """All at once."""
        try:
            return self._connection.execute(query, tuple(values)).fetchall()
        except sqlite3.Error as error:
            raise self._trouble(error) from error

    def size(self) -> int | None:
        """Of the pages that hold something: what was deleted is used again before the file grows."""
        pages, free, each = (
            self.rows(f"PRAGMA {name}")[0][0] for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * each)

    def close(self) -> None:
        """With the last connection the WAL goes, too."""
        self._connection.close()

    def _trouble(self, error: Exception) -> HistoryError:
        hopeless = isinstance(error, sqlite3.IntegrityError | sqlite3.DataError | sqlite3.ProgrammingError)
        return HistoryError(f"history in {self._file}: {error}", hopeless=hopeless)


class PostgreSQL:
    """A server's database. Its tables start with `windlass_`."""

    def __init__(self, url: str) -> None:
        import psycopg  # noqa: PLC0415 - only for those who name a server

        self._error = psycopg.Error
        self._hopeless = psycopg.DataError, psycopg.IntegrityError
        self._where = _without_password(url)
        try:
            self._connection = psycopg.connect(
                url, autocommit=True, connect_timeout=_PATIENCE, options=f"-c statement_timeout={_ANSWER}"
            )
        except psycopg.Error as error:
            raise self._trouble(error) from error

    def prepare(self, statements: Iterable[str]) -> None:
        """Behind a lock that only this uses: IF NOT EXISTS alone lets two makers of a table collide.

        One transaction each: an index locks its table though it is there already, and whoever writes holds others.
        """
        try:
            for statement in statements:
                with self._connection.transaction():
                    self._connection.execute("SELECT pg_advisory_xact_lock(hashtext('windlass history'))")
                    self._connection.execute(statement.encode())
        except self._error as error:
            raise self._trouble(error) from error

    def write(self, writes: Iterable[Write]) -> None:
        """In one transaction, sent in one go."""
        try:
            with self._connection.transaction(), self._connection.cursor() as cursor:
                for statement, rows in writes:
                    cursor.executemany(_placed(statement).encode(), rows)
        except self._error as error:
            raise self._trouble(error) from error

    def rows(self, query: str, values: Iterable[Any] = ()) -> list[Row]:
        """All at once."""
        try:
            return self._connection.execute(_placed(query).encode(), tuple(values)).fetchall()
        except self._error as error:
            raise self._trouble(error) from error

    def size(self) -> None:
        """Whoever runs the server looks after its disk; what was deleted frees nothing there before a VACUUM."""

    def close(self) -> None:
        """Say goodbye."""
        self._connection.close()

    def _trouble(self, error: Exception) -> HistoryError:
        text = f"history in {self._where}: {' '.join(str(error).split())}"
        return HistoryError(text, hopeless=isinstance(error, self._hopeless))


def _placed(statement: str) -> str:
    return statement.replace("?", "%s")


def _file(url: str) -> str:
    """Of `sqlite:///var/lib/history.db` the path, which begins at the third slash."""
    return urlsplit(url).path


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    if parts.password is None:
        return url
    return parts._replace(netloc=parts.netloc.replace(f":{parts.password}@", "@")).geturl()
