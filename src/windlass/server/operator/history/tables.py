"""Statements and values that write history into its tables (schema.sql), the same for SQLite and PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import TypeVar

import msgspec

from windlass.server.operator.history.databases import Database, HistoryError, Row, Write
from windlass.server.operator.history.entries import HistoryEntry, LogEntry, MemberEntry

T = TypeVar("T")
_VERSION = "1"
_JOB = (
    "INSERT INTO windlass_jobs (id, created_at, number, object, name, username, queue, phase, reason, finished_at, "
    "spec, status) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id, created_at) DO UPDATE SET "
    "phase = excluded.phase, reason = excluded.reason, finished_at = excluded.finished_at, status = excluded.status"
)
_TRANSITION = (
    "INSERT INTO windlass_transitions (number, job_id, created_at, told_at, event, was, became, message) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (number, job_id) DO NOTHING"
)
# A recorded end stays when the pod is recorded again without one.
_MEMBER = (
    "INSERT INTO windlass_members (job_id, created_at, generation, member, role, replica, node, pod, code, signal, "
    "detail, missing) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '') "
    "ON CONFLICT (job_id, created_at, generation, member) DO UPDATE SET node = excluded.node, "
    "code = coalesce(excluded.code, windlass_members.code), "
    "signal = coalesce(excluded.signal, windlass_members.signal), "
    "detail = CASE excluded.detail WHEN '' THEN windlass_members.detail ELSE excluded.detail END"
)
_LINES = (
    "UPDATE windlass_members SET log = ?, missing = '' "
    "WHERE job_id = ? AND created_at = ? AND generation = ? AND member = ?"
)
_MISSING = (
    "UPDATE windlass_members SET missing = ? "
    "WHERE job_id = ? AND created_at = ? AND generation = ? AND member = ? AND log IS NULL"
)
_encode = msgspec.json.encode


def prepare(database: Database) -> None:
    """Creates missing tables. Raises HistoryError, also if the tables are of another version."""
    schema = re.sub("--.*", "", Path(__file__).with_name("schema.sql").read_text())
    database.prepare(statement for text in schema.split(";") if (statement := text.strip()))
    version = "INSERT INTO windlass_meta (name, value) VALUES ('version', ?) ON CONFLICT (name) DO NOTHING"
    database.write([(version, [(_VERSION,)])])
    found = database.rows("SELECT value FROM windlass_meta WHERE name = 'version'")[0][0]
    if found != _VERSION:
        raise HistoryError(
            f"history in this database was written by another version of Windlass (tables {found}, expected "
            f"{_VERSION}); name another database"
        )


def make_writes(entries: Iterable[tuple[HistoryEntry, int]]) -> list[Write]:
    """Statements that write these entries. Each entry comes with the number of its first transition."""
    numbered = list(entries)
    found = [entry for entry, _ in numbered]
    lines = _all(found, lambda entry: entry.lines)
    statements = [
        (_TRANSITION, list(chain.from_iterable(_transitions(entry, first) for entry, first in numbered))),
        (_JOB, list(chain.from_iterable(map(_jobs, found)))),
        (_MEMBER, [_member(each) for each in _all(found, lambda entry: entry.members)]),
        (_LINES, [(_text(each.text), *_member_key(each)) for each in lines if not each.missing]),
        (_MISSING, [(_text(each.missing), *_member_key(each)) for each in lines if each.missing]),
    ]
    return [(statement, rows) for statement, rows in statements if rows]


def make_note(name: str, value: str) -> list[Write]:
    """Statement that sets a fact about the whole history."""
    statement = "INSERT INTO windlass_meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = ?"
    return [(statement, [(name, value, value)])]


def make_deletions(jobs: Sequence[tuple[str, int]]) -> list[Write]:
    """Statements that delete all records of jobs, given as pairs of id and creation time."""
    return [
        ("DELETE FROM windlass_members WHERE job_id = ? AND created_at = ?", jobs),
        ("DELETE FROM windlass_transitions WHERE job_id = ? AND created_at = ?", jobs),
        ("DELETE FROM windlass_jobs WHERE id = ? AND created_at = ?", jobs),
    ]


def _transitions(entry: HistoryEntry, first: int) -> Iterable[Row]:
    for number, entry_transition in enumerate(entry.transitions, start=first):
        t = entry_transition.transition
        yield number, t.job_id, entry_transition.created_at, t.at, t.event, t.before, t.after, _text(t.message)


def _jobs(entry: HistoryEntry) -> Iterable[Row]:
    for state in entry.ended:
        status, job = state.status, state.job
        yield (
            *(state.id, status.created_at, state.number, state.id.rpartition("/")[2], job.name, job.user, job.queue),
            *(status.phase.value, status.reason, status.finished_at or 0),
            *(_text(_encode(job).decode()), _text(_encode(status).decode())),
        )


def _member(member: MemberEntry) -> Row:
    task = member.task
    key = (task.job_id, member.created_at, task.generation, task.rank, task.role, task.replica, task.node, task.pod)
    return (*key, task.code, task.signal, _text(task.detail))


def _member_key(lines: LogEntry) -> Row:
    return lines.job_id, lines.created_at, lines.generation, lines.rank


def _all(entries: Iterable[HistoryEntry], part: Callable[[HistoryEntry], Iterable[T]]) -> list[T]:
    return [each for entry in entries for each in part(entry)]


def _text(text: str) -> str:
    """The text without NUL, which PostgreSQL refuses."""
    return text.replace("\x00", "")
