"""The jobs that a user's text means: by id, by name, or as members of an array."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.backends.local.state_reader import StateReader

_NAMES_LOOKED_AT = 2_000
_SHOWN = 5
"""Maximum number of ids that an error lists."""


class NameResolutionError(LookupError):
    """A text means no job or array, or a name means several living ones.

    The error lists the living ones, or the nearest names.
    """


def resolve(records: StateReader, text: str) -> str:
    """Returns the id for a user's text: an id, else the job (or array) of that name, else an array's id.

    Of several jobs of a name the living one is meant; if none lives, the latest. Raises NameResolutionError.
    """
    if records.rows("SELECT 1 FROM jobs WHERE id = ?", (text,)):
        return text
    if found := _living(records, text) or _latest(records, text):
        return choose_only(text, found)
    if records.rows("SELECT 1 FROM jobs WHERE array_id = ? LIMIT 1", (text,)):
        return text
    raise NameResolutionError(_describe_unknown(records, text))


def choose_only(text: str, found: Sequence[str]) -> str:
    """Returns the only living job of a name. Raises NameResolutionError with a list if there are several."""
    if len(found) == 1:
        return found[0]
    listed = ", ".join(found[:_SHOWN]) + (f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "")
    raise NameResolutionError(f"{text!r} may be any of {len(found)} living jobs: {listed}; use an id")


def _living(records: StateReader, name: str) -> list[str]:
    """Returns the ids of jobs and arrays of a name that have not ended, oldest first."""
    query = "SELECT id, array_id FROM jobs WHERE name = ? AND finished_at IS NULL ORDER BY number, row"
    return list(dict.fromkeys(str(array_id or job_id) for job_id, array_id in records.rows(query, (name,))))


def _latest(records: StateReader, name: str) -> list[str]:
    """Returns the id of the latest job or array of a name; empty if there is none."""
    query = "SELECT id, array_id FROM jobs WHERE name = ? ORDER BY number DESC, row DESC LIMIT 1"
    return [str(array_id or job_id) for job_id, array_id in records.rows(query, (name,))]


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
