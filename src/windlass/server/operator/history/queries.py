"""Queries of history, with results in the types of the core."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from windlass.backends.port import Transition
from windlass.core.model.job import Job
from windlass.core.model.status import JobState, Phase, Status
from windlass.server.job_filter import HistoryFilter
from windlass.server.operator.history.databases import Database, HistoryError, Row
from windlass.server.operator.history.entries import RecordedStay, StoredLog
from windlass.server.operator.pod_tasks import PodTask

_decode_job = msgspec.json.Decoder(Job).decode
_decode_status = msgspec.json.Decoder(Status).decode
_STATE = "SELECT id, number, spec, status FROM windlass_jobs"
_COLUMNS = {"name": "name", "user": "username", "queue": "queue"}
_MAX_IDS = 50
"""Ids returned for one name."""
_MAX_NAMES = 2_000
"""Ids returned for suggestions after a typing error."""
_MAX_EVENTS = 1_000
_GROUP = 50
"""Tests that one pair of brackets has."""


def note(database: Database, name: str) -> str | None:
    """A fact about the whole history; None without it."""
    rows = database.rows("SELECT value FROM windlass_meta WHERE name = ?", (name,))
    return str(rows[0][0]) if rows else None


def job(database: Database, job_id: str) -> JobState | None:
    """The latest ended job with this id."""
    return next(iter(_states(database, f"{_STATE} WHERE id = ? ORDER BY created_at DESC LIMIT 1", (job_id,))), None)


def ids(database: Database, name: str) -> list[str]:
    """Ids of jobs whose object or job has this name, the last to end first."""
    query = (
        "SELECT id FROM windlass_jobs WHERE id = ? OR object = ? OR name = ? "
        "GROUP BY id ORDER BY max(finished_at) DESC LIMIT ?"
    )
    last = name.rpartition("/")[2]
    return [str(row[0]) for row in database.rows(query, (name, last, last, _MAX_IDS))]


def names(database: Database) -> list[str]:
    """Ids of the jobs that ended last."""
    query = "SELECT id FROM windlass_jobs GROUP BY id ORDER BY max(finished_at) DESC LIMIT ?"
    return [str(row[0]) for row in database.rows(query, (_MAX_NAMES,))]


def jobs(database: Database, query: Mapping[str, Any], limit: int) -> list[JobState]:
    """Ended jobs that match a query of `JobFilter.query`, the latest created first."""
    tests, values = ["1 = 1"], []
    for key, column in _COLUMNS.items():
        if accepted := query.get(key):
            tests.append(f"{column} IN ({_placeholders(accepted)})")
            values += accepted
    if namespace := query.get("namespace"):
        tests.append("id LIKE ?")
        values.append(f"{namespace}/%")
    if (visible := query.get("visible")) is not None:
        tests.append(_is_visible(visible))
        values += _prefixes(visible)
    phases, failed_for = query.get("phases") or (), query.get("failed_for") or ()
    if phases or failed_for:
        any_of = [f"phase IN ({_placeholders(phases)})"] if phases else []
        any_of += [f"phase = ? AND reason IN ({_placeholders(failed_for)})"] if failed_for else []
        tests.append(f"({' OR '.join(any_of)})")
        values += [*map(str, phases), *([str(Phase.FAILED), *failed_for] if failed_for else ())]
    return _states(database, f"{_STATE} WHERE {' AND '.join(tests)} ORDER BY created_at DESC LIMIT ?", (*values, limit))


def ended(database: Database, chosen: HistoryFilter) -> list[JobState]:
    """Ended jobs that match a filter, the last to end first."""
    inside = f"{chosen.namespace}/%" if chosen.namespace else ""
    tests, values = ["finished_at >= ?"], [chosen.since, *filter(None, (chosen.name, chosen.user, inside))]
    tests += [f"{column} = ?" for column, value in (("name", chosen.name), ("username", chosen.user)) if value]
    tests += ["id LIKE ?"] if inside else []
    if chosen.visible is not None:
        tests.append(_is_visible(chosen.visible))
        values += _prefixes(chosen.visible)
    query = f"{_STATE} WHERE {' AND '.join(tests)} ORDER BY finished_at DESC LIMIT ?"
    return _states(database, query, (*values, chosen.limit))


def transitions(database: Database, job_id: str, created_at: int) -> list[Transition]:
    """Transitions of one job, oldest first."""
    query = (
        "SELECT job_id, told_at, event, was, became, message FROM windlass_transitions "
        "WHERE job_id = ? AND created_at = ? ORDER BY number"
    )
    return [Transition(*row) for row in database.rows(query, (job_id, created_at))]


def events(database: Database, after: int, job_ids: Collection[str]) -> list[tuple[int, Transition]]:
    """Transitions after event number `after` with their numbers, oldest first. No job ids: of all jobs."""
    chosen = f"job_id IN ({_placeholders(job_ids)}) AND" if job_ids else ""
    query = (
        "SELECT number, job_id, told_at, event, was, became, message FROM windlass_transitions "  # noqa: S608 - only `?`
        f"WHERE {chosen} number > ? ORDER BY number LIMIT ?"
    )
    return [(row[0], Transition(*row[1:])) for row in database.rows(query, (*job_ids, after, _MAX_EVENTS))]


def tasks(database: Database, job_id: str, created_at: int) -> list[PodTask]:
    """Pods of every generation, by generation and rank."""
    query = (
        "SELECT job_id, generation, member, role, replica, node, pod, code, signal, detail FROM windlass_members "
        "WHERE job_id = ? AND created_at = ? ORDER BY generation, member"
    )
    return [_task(row) for row in database.rows(query, (job_id, created_at))]


def logs(database: Database, job_id: str, created_at: int) -> list[StoredLog]:
    """Recorded logs by generation and rank. Pods without a record of their log are left out."""
    query = (
        "SELECT generation, member, role, replica, pod, node, coalesce(log, ''), missing FROM windlass_members "
        "WHERE job_id = ? AND created_at = ? AND (log IS NOT NULL OR missing <> '') ORDER BY generation, member"
    )
    return [StoredLog(*row) for row in database.rows(query, (job_id, created_at))]


def node_stays(database: Database, node: str, visible: Collection[str] | None, limit: int) -> list[RecordedStay]:
    """Attempts of jobs on a node, the newest job first. `visible`: only jobs of these namespaces; None: all."""
    inside = "" if visible is None else f"AND {_is_visible(visible, 'job_id')} "
    query = (
        "SELECT job_id, created_at, generation, count(*), "  # noqa: S608 - only `?`
        "sum(CASE WHEN coalesce(code, 0) <> 0 OR signal IS NOT NULL THEN 1 ELSE 0 END) FROM windlass_members "
        f"WHERE node = ? {inside}GROUP BY job_id, created_at, generation "
        "ORDER BY created_at DESC, generation DESC LIMIT ?"
    )
    prefixes = [] if visible is None else _prefixes(visible)
    return [RecordedStay(*row) for row in database.rows(query, (node, *prefixes, limit))]


def outdated(database: Database, before: int) -> list[tuple[str, int]]:
    """Ids and creation times of jobs that ended before a time (ms), or have no end and no later transition."""
    ended_then = "SELECT id, created_at FROM windlass_jobs WHERE finished_at < ? LIMIT 10000"
    unheard = (
        "SELECT t.job_id, t.created_at FROM windlass_transitions t LEFT JOIN windlass_jobs j "
        "ON j.id = t.job_id AND j.created_at = t.created_at WHERE j.id IS NULL "
        "GROUP BY t.job_id, t.created_at HAVING max(t.told_at) < ? LIMIT 10000"
    )
    return [(row[0], row[1]) for query in (ended_then, unheard) for row in database.rows(query, (before,))]


def oldest(database: Database, count: int) -> list[tuple[str, int]]:
    """Ids and creation times of the jobs that ended first."""
    query = "SELECT id, created_at FROM windlass_jobs ORDER BY finished_at LIMIT ?"
    return [(row[0], row[1]) for row in database.rows(query, (count,))]


def _task(row: Row) -> PodTask:
    job_id, generation, rank, role, replica, node, pod, code, signal, detail = row
    return PodTask(job_id, generation, rank, role, replica, node, pod, code=code, signal=signal, detail=detail)


def _states(database: Database, query: str, values: Iterable[Any]) -> list[JobState]:
    rows = database.rows(query, values)
    try:
        return [JobState(row[0], row[1], _decode_job(row[2]), _decode_status(row[3])) for row in rows]
    except msgspec.MsgspecError as error:
        raise HistoryError(f"history contains invalid records: {error}") from error


def _is_visible(namespaces: Collection[str], column: str = "id") -> str:
    """A test of ids with a placeholder for each of `_prefixes`, in groups: SQLite limits the depth of expressions."""
    tests = [f"{column} LIKE ?"] * len(namespaces)
    groups = [" OR ".join(tests[start : start + _GROUP]) for start in range(0, len(tests), _GROUP)]
    return f"({' OR '.join(f'({group})' for group in groups) or '1 = 0'})"


def _prefixes(namespaces: Iterable[str]) -> list[str]:
    return [f"{namespace}/%" for namespace in namespaces]


def _placeholders(values: Sequence[Any] | Collection[Any]) -> str:
    return ", ".join("?" * len(values))
