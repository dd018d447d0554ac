"""The embedded store: an SQLite file beside the state, which may be lost without losing any job.

Frames arrive one by one (`head`). Compaction moves the raw frames of five minutes, and the minutes of an hour, into one
compressed block each, and summarizes closed minutes and hours. Nothing is kept in memory between calls: after a crash
the next compaction continues from what is in the file.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from windlass.telemetry.frame_codec import CodecError, decode_frames, encode_frames
from windlass.telemetry.frames import RETENTION_MS, SPAN_MS, MetricFrame, Tier
from windlass.telemetry.rollup import merge_summaries, summarize_span

MAX_BYTES = 50_000_000
"""Size of the file above which the oldest frames are deleted before their time, raw ones first."""
_FILL_AFTER_DELETION = 0.9
_BLOCK_MS = {Tier.RAW: 300_000, Tier.MINUTE: 3_600_000, Tier.HOUR: 24 * 3_600_000}
_LATE_MS = 10_000
"""Age at which no more frames of a block are expected."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS scopes (id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL);
CREATE TABLE IF NOT EXISTS head (scope INTEGER, tier INTEGER, time INTEGER, data BLOB NOT NULL,
    PRIMARY KEY (scope, tier, time)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS blocks (scope INTEGER, tier INTEGER, start INTEGER, data BLOB NOT NULL,
    PRIMARY KEY (scope, tier, start)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS blocks_by_age ON blocks (tier, start);
"""
_ADD_SCOPE = "INSERT OR IGNORE INTO scopes (name) VALUES (?)"
_ADD_FRAME = "INSERT OR REPLACE INTO head SELECT id, ?, ?, ? FROM scopes WHERE name = ?"
_CLOSED = "SELECT DISTINCT scope, time / ? FROM head WHERE tier = ? AND time < ?"
_HEAD = "SELECT data FROM head WHERE scope = ? AND tier = ? AND time >= ? AND time < ? ORDER BY time"
_STAMP = """SELECT tier, MAX(time) FROM head JOIN scopes ON scope = id WHERE name = ? GROUP BY tier UNION ALL
    SELECT tier, MAX(start) FROM blocks JOIN scopes ON scope = id WHERE name = ? GROUP BY tier"""
_BLOCKS = "SELECT data FROM blocks WHERE scope = ? AND tier = ? AND start > ? AND start < ? ORDER BY start"
_FORGET_SCOPES = """DELETE FROM scopes WHERE NOT EXISTS (SELECT 1 FROM head WHERE scope = id)
    AND NOT EXISTS (SELECT 1 FROM blocks WHERE scope = id)"""


class StoreError(Exception):
    """The store cannot be read or written; jobs are not affected."""


class TelemetryStore:
    """One connection to the file, used by one thread at a time. Methods raise StoreError."""

    def __init__(self, connection: sqlite3.Connection, path: Path, max_bytes: int = MAX_BYTES) -> None:
        self._connection, self._path, self._max_bytes = connection, path, max_bytes
        self.replaced = ""
        """Sentence about a damaged file that was set aside; empty if there was none."""

    @classmethod
    def create(cls, path: Path, max_bytes: int = MAX_BYTES) -> Self:
        """Opens or creates the file for writing. A damaged one is renamed to `NAME.damaged`, and `replaced` says so."""
        try:
            return cls(_open(path), path, max_bytes)
        except sqlite3.OperationalError as error:
            raise _trouble(path, error) from error
        except sqlite3.DatabaseError as error:
            return cls._replace(path, max_bytes, error)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Opens an existing file for reading only, beside a writer."""
        if not path.exists():
            raise StoreError(f"telemetry in {path}: nothing has been recorded yet")
        try:
            connection = sqlite3.connect(
                f"file:{quote(str(path))}?mode=ro", uri=True, timeout=5, check_same_thread=False
            )
            connection.execute("SELECT 1 FROM scopes LIMIT 1")
        except sqlite3.Error as error:
            raise _trouble(path, error) from error
        return cls(connection, path)

    @classmethod
    def _replace(cls, path: Path, max_bytes: int, error: sqlite3.DatabaseError) -> Self:
        damaged = path.with_suffix(".damaged")
        try:
            path.replace(damaged)
            for suffix in ("-wal", "-shm"):
                Path(f"{path}{suffix}").unlink(missing_ok=True)
            store = cls(_open(path), path, max_bytes)
        except (OSError, sqlite3.Error) as again:
            raise _trouble(path, again) from again
        store.replaced = f"{path} is damaged ({error}): it is now {damaged.name}, and telemetry starts anew"
        return store

    def add(self, frames: Iterable[MetricFrame]) -> None:
        """Adds raw frames in one transaction; one of the same scope and time is replaced."""
        rows = [(frame.scope, (int(Tier.RAW), frame.time, encode_frames([frame]), frame.scope)) for frame in frames]
        with self._transaction():
            self._connection.executemany(_ADD_SCOPE, [(scope,) for scope, _ in rows])
            self._connection.executemany(_ADD_FRAME, [row for _, row in rows])

    def compact(self, now: int) -> None:
        """Moves closed frames into blocks and summaries, and deletes what is too old or beyond the size."""
        # 1. raw frames into blocks and minutes, minutes into blocks and hours, hours into blocks
        for tier in Tier:
            self._compact_tier(tier, now)
        # 2. age
        with self._transaction():
            for tier in Tier:
                for table, column in (("head", "time"), ("blocks", "start")):
                    limit = now - RETENTION_MS[tier] - (_BLOCK_MS[tier] if table == "blocks" else 0)
                    self._connection.execute(f"DELETE FROM {table} WHERE tier = ? AND {column} < ?", (tier, limit))  # noqa: S608 - names of ours
            self._connection.execute(_FORGET_SCOPES)
        # 3. size
        self._shrink()

    def scopes(self, prefix: str = "") -> list[str]:
        """Names of all scopes that begin with `prefix`."""
        rows = self._rows("SELECT name FROM scopes WHERE substr(name, 1, ?) = ? ORDER BY name", (len(prefix), prefix))
        return [name for (name,) in rows]

    def frames(self, scope: str, tier: Tier, since: int, until: int) -> list[MetricFrame]:
        """Frames of a scope with `since` <= time < `until`, in order of time. Damaged blocks are left out."""
        found = self._rows("SELECT id FROM scopes WHERE name = ?", (scope,))
        if not found:
            return []
        number = found[0][0]
        rows = self._rows(_BLOCKS, (number, tier, since - _BLOCK_MS[tier], until))
        rows += self._rows(_HEAD, (number, tier, since, until))
        frames = {frame.time: frame for (data,) in rows for frame in _decode(scope, data)}
        return [frames[time] for time in sorted(frames) if since <= time < until]

    def stamp(self, scope: str) -> str:
        """The same text until frames of a scope are added or moved; "" for a scope without frames."""
        rows = self._rows(_STAMP, (scope, scope))
        return ",".join(f"{tier}.{newest}" for tier, newest in rows)

    def size(self) -> int:
        """Bytes in use, without free pages."""
        pages, free, each = (
            self._rows(f"PRAGMA {name}")[0][0] for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * each)

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

    def _compact_tier(self, tier: Tier, now: int) -> None:
        span = _BLOCK_MS[tier]
        closed = (now - _LATE_MS) // span * span
        for number, index in self._rows(_CLOSED, (span, tier, closed)):
            (scope,) = self._rows("SELECT name FROM scopes WHERE id = ?", (number,))[0]
            start = index * span
            with self._transaction():
                self._close_block(scope, number, tier, start)

    def _close_block(self, scope: str, number: int, tier: Tier, start: int) -> None:
        """Moves the frames of one span from `head` into its block, and adds their summaries to the next tier."""
        end = start + _BLOCK_MS[tier]
        new = [frame for (data,) in self._rows(_HEAD, (number, tier, start, end)) for frame in _decode(scope, data)]
        before = self._rows("SELECT data FROM blocks WHERE scope = ? AND tier = ? AND start = ?", (number, tier, start))
        old = [frame for (data,) in before for frame in _decode(scope, data)]
        merged = {frame.time: frame for frame in (*old, *new)}
        frames = [merged[time] for time in sorted(merged)]
        execute = self._connection.execute
        if frames:
            execute("INSERT OR REPLACE INTO blocks VALUES (?, ?, ?, ?)", (number, tier, start, encode_frames(frames)))
        execute("DELETE FROM head WHERE scope = ? AND tier = ? AND time >= ? AND time < ?", (number, tier, start, end))
        for summary in _summaries(frames, tier):
            data = encode_frames([summary])
            execute("INSERT OR REPLACE INTO head VALUES (?, ?, ?, ?)", (number, tier + 1, summary.time, data))

    def _shrink(self) -> None:
        if self.size() <= self._max_bytes:
            return
        groups = self._rows("SELECT DISTINCT tier, start FROM blocks ORDER BY tier, start")
        for tier, start in groups:
            with self._transaction():
                self._connection.execute("DELETE FROM blocks WHERE tier = ? AND start = ?", (tier, start))
            if self.size() <= self._max_bytes * _FILL_AFTER_DELETION:
                break

    def _rows(self, query: str, values: Sequence[object] = ()) -> list[Any]:
        try:
            return self._connection.execute(query, tuple(values)).fetchall()
        except sqlite3.Error as error:
            raise _trouble(self._path, error) from error

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                yield
        except sqlite3.Error as error:
            raise _trouble(self._path, error) from error


def _trouble(path: Path, error: Exception) -> StoreError:
    return StoreError(f"telemetry in {path}: {error}")


def _open(path: Path) -> sqlite3.Connection:
    """Opens the file. A new one gets its name with all tables in it: readers never see half of it."""
    if path.exists():
        return _connect(path)
    unfinished = path.with_suffix(".new")
    with contextlib.suppress(OSError):  # sqlite3 reports what is wrong
        unfinished.touch(mode=0o600)
    _connect(unfinished).close()
    with contextlib.suppress(OSError):
        unfinished.replace(path)
    return _connect(path)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=5, check_same_thread=False)
    try:
        for setting in ("journal_mode = WAL", "synchronous = NORMAL", "journal_size_limit = 4194304"):
            connection.execute(f"PRAGMA {setting}")
        connection.executescript(_SCHEMA)
    except BaseException:
        connection.close()
        raise
    return connection


def _decode(scope: str, data: bytes) -> list[MetricFrame]:
    with contextlib.suppress(CodecError):
        return decode_frames(scope, data)
    return []


def _summaries(frames: Sequence[MetricFrame], tier: Tier) -> list[MetricFrame]:
    if tier is Tier.RAW:
        return summarize_span(frames, SPAN_MS[Tier.MINUTE])
    return merge_summaries(frames, SPAN_MS[Tier.HOUR]) if tier is Tier.MINUTE else []
