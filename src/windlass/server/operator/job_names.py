"""Resolution of typed names to ids of jobs in a cluster. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence

from windlass.server.errors import ApiError, ErrorCode

_SHOWN = 5


def normalize_name(text: str) -> str:
    """A name with the slashes of an id. In a URL colons may replace them, so that no name is read as a path."""
    return text.replace(":", "/").strip("/")


def find_candidates(text: str, ids: Iterable[str]) -> list[str]:
    """Ids that a name may mean: the id itself, else all ids with this end.

    Ids are `namespace/name` for TrainingJobs, `namespace/kind/name` for other kinds; "name", "kind/name", and
    "namespace/name" of another kind are enough.
    """
    words = text.split("/")
    found = []
    for job_id in ids:
        if job_id == text:
            return [job_id]
        if _means(words, job_id.split("/")):
            found.append(job_id)
    return sorted(found)


def choose_only(text: str, found: Sequence[str]) -> str:
    """The only candidate. Raises ApiError with a list if there are several."""
    if len(found) == 1:
        return found[0]
    listed = ", ".join(found[:_SHOWN]) + (f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "")
    raise ApiError(
        ErrorCode.NO_SUCH_JOB, f"{text[:200]!r} may be any of {len(found)} jobs: {listed}", "use the whole id"
    )


def unknown_job(text: str, ids: Collection[str]) -> ApiError:
    """The error for an unknown name, with the nearest names."""
    names = {name: job_id for job_id in ids for name in (job_id.rpartition("/")[2], job_id)}
    near = dict.fromkeys(names[name] for name in difflib.get_close_matches(text, names, n=3))
    hint = f"; did you mean {', '.join(near)}?" if near else "; `windlass history` lists those that ended"
    return ApiError(ErrorCode.NO_SUCH_JOB, f"no job is called {text[:200]!r}{hint}")


def _means(words: Sequence[str], parts: Sequence[str]) -> bool:
    if len(words) == 2 and len(parts) == 3:
        return words[1] == parts[2] and words[0] in parts[:2]
    return len(words) < len(parts) and list(words) == list(parts[-len(words) :])
