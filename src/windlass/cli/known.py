"""What the shell offers when Tab is pressed after a verb that takes a job."""

from __future__ import annotations

import os
from pathlib import Path

from windlass.cli.place import state_folder
from windlass.server.attach import daemon_of, source
from windlass.server.errors import ApiError
from windlass.worlds.trouble import WorldError

_OFFERED = 200


def job_names(incomplete: str) -> list[tuple[str, str]]:
    """Ids and their states, the latest first. Completion never complains."""
    try:
        jobs = source(_folder()).jobs(all="1", limit=_OFFERED)
    except (ApiError, WorldError, OSError):
        return []
    return [(job["id"], job["phase"]) for job in jobs if job["id"].startswith(incomplete)]


def reservation_names(incomplete: str) -> list[tuple[str, str]]:
    """What is reserved, and whether it has begun."""
    try:
        kept = daemon_of(_folder()).reservations()
    except (ApiError, OSError):
        return []
    return [(each["name"], each["state"]) for each in kept if each["name"].startswith(incomplete)]


def _folder() -> Path:
    given = os.environ.get("WINDLASS_STATE")
    return state_folder(Path(given) if given else None)
