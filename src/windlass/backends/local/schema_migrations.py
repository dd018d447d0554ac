"""Brings the database to the schema of this version of Windlass: numbered SQL scripts, each applied once.

`PRAGMA user_version` of a database is the number of the last script that was applied to it. A script and the new number
are one transaction, so that a process killed at any time leaves a database of one of the versions.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from windlass.backends.errors import BackendError

_SCRIPTS = sorted(Path(__file__).with_name("migrations").glob("*.sql"))
"""By name, which begins with the number: 0001_initial.sql is the schema of version 1."""


def migrate(connection: sqlite3.Connection, database: Path) -> None:
    """Applies the scripts that the database lacks. Raises BackendError for a database of a later version."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > len(_SCRIPTS):
        raise BackendError(
            f"{database} was written by a later version of Windlass (schema {version}, "
            f"this one knows {len(_SCRIPTS)}); use that version, or another state folder in WINDLASS_STATE"
        )
    for number, script in enumerate(_SCRIPTS[version:], start=version + 1):
        _apply(connection, script.read_text(), number)


def _apply(connection: sqlite3.Connection, script: str, number: int) -> None:
    try:
        connection.executescript(f"BEGIN IMMEDIATE; {script}\nPRAGMA user_version = {number}; COMMIT;")
    except sqlite3.DatabaseError:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
