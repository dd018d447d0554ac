"""The jobs that a user's text means: by id, by name, or as members of an array."""

from __future__ import annotations

from windlass.backends.local.state_reader import StateReader

_NAMES_LOOKED_AT = 2_000


class UnknownJobError(LookupError):
    """No job or array has this name or id; the text names the nearest ones."""


def resolve(records: StateReader, text: str) -> str:
    """Returns the id for a user's text: an id, else the latest job (or array) of that name, else an array's id.

    Raises UnknownJobError with the nearest names.
    """
    if records.rows("SELECT 1 FROM jobs WHERE id = ?", (text,)):
        return text
    named = records.rows("SELECT id, array_id FROM jobs WHERE name = ? ORDER BY number DESC, row DESC LIMIT 1", (text,))
    if named:
        job_id, array_id = named[0]
        return str(array_id or job_id)
    if records.rows("SELECT 1 FROM jobs WHERE array_id = ? LIMIT 1", (text,)):
        return text
    raise UnknownJobError(_describe_unknown(records, text))


def array_members(records: StateReader, array_id: str) -> list[str]:
    """Returns the ids of an array's jobs, in order; empty if the id is no array."""
    return [row[0] for row in records.rows("SELECT id FROM jobs WHERE array_id = ? ORDER BY number, row", (array_id,))]


def _describe_unknown(records: StateReader, text: str) -> str:
    rows = records.rows("SELECT DISTINCT name, id FROM jobs ORDER BY number DESC LIMIT ?", (_NAMES_LOOKED_AT,))
    import difflib  # noqa: PLC0415 - only for a misspelled name

    known = dict.fromkeys(word for row in rows for word in row)
    near = difflib.get_close_matches(text, known, n=3)
    hint = f"; did you mean {', '.join(near)}?" if near else "; `windlass history` lists those that ended"
    return f"no job is called {text!r}{hint}"
