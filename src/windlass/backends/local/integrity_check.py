"""Looks for damage in the database when a controller opens it.

SQLite notices a damaged page only when a query happens to read it, and has no checksum of a page's content.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec

from windlass.backends.local.sealed_text import unseal
from windlass.backends.local.state_reader import CorruptError

_MAX_BYTES = 4 << 20
"""A database of this size takes some 20 ms. In a larger one, records are verified when they are read."""
_DIFFERING_COPIES = (
    "SELECT id FROM jobs WHERE phase IS NOT coalesce(json_extract(status, '$.phase'), 'Created')"
    " OR finished_at IS NOT json_extract(status, '$.finished_at') LIMIT 1"
)
"""Columns for queries are copies of what the status says."""
_SEALED = (
    "SELECT spec, id || ' ' || number FROM jobs",
    "SELECT status, id FROM jobs",
    "SELECT fields, job_id FROM placements",
)


def check_integrity(connection: sqlite3.Connection, database: Path) -> None:
    """Raises CorruptError for damaged pages and records. Does nothing with a large database."""
    if _size(connection) > _MAX_BYTES:
        return
    found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if found != "ok":
        raise CorruptError(database, " ".join(found.split()))
    try:
        for query in _SEALED:
            for text, owner in connection.execute(query):
                msgspec.json.decode(unseal(text, owner))
        differing = connection.execute(_DIFFERING_COPIES).fetchone()
    except (msgspec.MsgspecError, ValueError, TypeError, AttributeError, sqlite3.OperationalError) as error:
        raise CorruptError(database, str(error)) from error
    if differing is not None:
        raise CorruptError(database, f"the columns of {differing[0]} differ from its status")


def _size(connection: sqlite3.Connection) -> int:
    pages, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    return int(pages) * int(size)
