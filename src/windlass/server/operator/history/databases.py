"""Databases for history: an SQLite file or PostgreSQL. Both take the same statements, with `?` for values."""

from __future__ import annotations

import contextlib
import os
import socket
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias
from urllib.parse import urlsplit

from windlass.backends.errors import BackendError

Row: TypeAlias = tuple[Any, ...]
Write: TypeAlias = tuple[str, Sequence[Row]]
"""A statement, and the values for each of its executions."""
_CONNECT_TIMEOUT_S = 5
"""Seconds of waiting for a lock of SQLite, and for a connection to PostgreSQL."""
_LOCK_RETRY_S = 0.05
_STATEMENT_TIMEOUT_MS = 30_000
"""Milliseconds for one statement of PostgreSQL."""
_KEEPALIVE_IDLE_S, _KEEPALIVE_INTERVAL_S, _KEEPALIVES = 10, 5, 3
_UNACKNOWLEDGED_MS = 20_000
"""Limits after which the connection to a PostgreSQL server that the network does not reach is broken."""


class HistoryError(BackendError):
    """History cannot be read or written. `hopeless`: a retry cannot succeed, because the written values are refused."""

    def __init__(self, text: str, *, hopeless: bool = False) -> None:
        super().__init__(text)
        self.hopeless = hopeless


class Database(Protocol):
    """One connection, used by one thread at a time. Methods raise HistoryError.

    Another thread may call `break_connection`.
    """

    def prepare(self, statements: Iterable[str]) -> None:
        """Executes the statements that create the tables, in one process at a time."""

    def write(self, writes: Iterable[Write]) -> None:
        """Executes all writes in one transaction."""

    def rows(self, query: str, values: Iterable[Any] = ()) -> list[Row]:
        """Rows that a query returns."""

    def size(self) -> int | None:
        """Bytes in use; None if the server's administrator manages the space."""

    def break_connection(self) -> None:
        """Makes the method that runs in another thread raise HistoryError soon."""

    def close(self) -> None:
        """Closes the connection."""


def check_url(url: str) -> None:
    """Checks the form of a database URL. Raises HistoryError."""
    scheme = urlsplit(url).scheme
    if scheme not in ("sqlite", "postgresql", "postgres") or (scheme == "sqlite" and not _file(url)):
        raise HistoryError(
            f"history cannot be kept in {describe(url)!r}: use sqlite:///path/of/a/file, "
            "or postgresql://user@host/database"
        )


def connect(url: str) -> Database:
    """Opens the database of a URL. Raises HistoryError."""
    return SQLite(_file(url)) if urlsplit(url).scheme == "sqlite" else PostgreSQL(url)


class SQLite:
    """A file in WAL mode, created if it is missing. Readers do not wait for the writer."""

    def __init__(self, file: str) -> None:
        self._file = file
        try:
            Path(file).parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                file, isolation_level=None, timeout=_CONNECT_TIMEOUT_S, check_same_thread=False
            )
            self._write_ahead()
            for setting in ("synchronous = NORMAL", "journal_size_limit = 16777216"):
                self._connection.execute(f"PRAGMA {setting}")
        except (sqlite3.Error, OSError) as error:
            raise self._trouble(error) from error

    def _write_ahead(self) -> None:
        """Switches to WAL mode, with retries: SQLite's lock timeout does not cover a new file that is being changed."""
        give_up = time.monotonic() + _CONNECT_TIMEOUT_S
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError:
                if time.monotonic() > give_up:
                    raise
                time.sleep(_LOCK_RETRY_S)
            else:
                return

    def prepare(self, statements: Iterable[str]) -> None:
        """Executes the statements in one write transaction."""
        with self._transaction():
            for statement in statements:
                self._connection.execute(statement)

    def write(self, writes: Iterable[Write]) -> None:
        """Executes the writes in one transaction."""
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
        except OverflowError as error:  # a number has more than 64 bits
            raise HistoryError(f"history in {self._file}: {error}", hopeless=True) from error
        except sqlite3.Error as error:
            raise self._trouble(error) from error

    def rows(self, query: str, values: Iterable[Any] = ()) -> list[Row]:
        """All rows of a query."""
        try:
            return self._connection.execute(query, tuple(values)).fetchall()
        except sqlite3.Error as error:
            raise self._trouble(error) from error

    def size(self) -> int | None:
        """Bytes of the pages in use. Free pages are reused before the file grows."""
        pages, free, each = (
            self.rows(f"PRAGMA {name}")[0][0] for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * each)

    def break_connection(self) -> None:
        """Interrupts the statement that runs in another thread."""
        self._connection.interrupt()

    def close(self) -> None:
        """Closes the connection. The last connection removes the WAL file."""
        self._connection.close()

    def _trouble(self, error: Exception) -> HistoryError:
        hopeless = isinstance(error, sqlite3.IntegrityError | sqlite3.DataError | sqlite3.ProgrammingError)
        return HistoryError(f"history in {self._file}: {error}", hopeless=hopeless)


class PostgreSQL:
    """A database of a PostgreSQL server. The tables' names start with `windlass_`."""

    def __init__(self, url: str) -> None:
        import psycopg  # noqa: PLC0415 - loaded only if a server is named

        self._error = psycopg.Error
        self._hopeless = psycopg.DataError, psycopg.IntegrityError
        self._where = describe(url)
        try:
            self._connection = psycopg.connect(
                url,
                autocommit=True,
                connect_timeout=_CONNECT_TIMEOUT_S,
                options=f"-c statement_timeout={_STATEMENT_TIMEOUT_MS}",
                keepalives_idle=_KEEPALIVE_IDLE_S,
                keepalives_interval=_KEEPALIVE_INTERVAL_S,
                keepalives_count=_KEEPALIVES,
                tcp_user_timeout=_UNACKNOWLEDGED_MS,
            )
        except psycopg.Error as error:
            raise self._trouble(error) from error
        self._socket = socket.socket(fileno=os.dup(self._connection.fileno()))
        """The connection's socket, also after libpq has closed its own descriptor."""

    def prepare(self, statements: Iterable[str]) -> None:
        """Executes the statements under an advisory lock: IF NOT EXISTS alone fails for two concurrent processes.

        Each statement has a transaction of its own. CREATE INDEX locks its table even if the index exists, and a writer
        may hold locks of other tables.
        """
        try:
            for statement in statements:
                with self._connection.transaction():
                    self._connection.execute("SELECT pg_advisory_xact_lock(hashtext('windlass history'))")
                    self._connection.execute(statement.encode())
        except self._error as error:
            raise self._trouble(error) from error

    def write(self, writes: Iterable[Write]) -> None:
        """Executes the writes in one transaction, sent as one pipeline."""
        try:
            with self._connection.transaction(), self._connection.cursor() as cursor:
                for statement, rows in writes:
                    cursor.executemany(_to_psycopg(statement).encode(), rows)
        except self._error as error:
            raise self._trouble(error) from error

    def rows(self, query: str, values: Iterable[Any] = ()) -> list[Row]:
        """All rows of a query."""
        try:
            return self._connection.execute(_to_psycopg(query).encode(), tuple(values)).fetchall()
        except self._error as error:
            raise self._trouble(error) from error

    def size(self) -> None:
        """None: the server's administrator manages its disk, and deleted rows free no space before a VACUUM."""

    def break_connection(self) -> None:
        """Shuts the socket down: neither the timeout of statements nor keepalives notice a stopped server."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()
        self._socket.close()

    def _trouble(self, error: Exception) -> HistoryError:
        text = f"history in {self._where}: {' '.join(str(error).split())}"
        return HistoryError(text, hopeless=isinstance(error, self._hopeless))


def _to_psycopg(statement: str) -> str:
    return statement.replace("?", "%s")


def _file(url: str) -> str:
    """Path of an SQLite URL: `sqlite:///var/lib/history.db` names `/var/lib/history.db`."""
    return urlsplit(url).path


def describe(url: str) -> str:
    """The URL of a database without its password."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    return parts._replace(netloc=parts.netloc.replace(f":{parts.password}@", "@")).geturl()
