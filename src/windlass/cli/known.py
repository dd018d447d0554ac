"""What the shell offers when Tab is pressed after a verb that takes a job."""

from __future__ import annotations

import os
from pathlib import Path

from windlass.cli.place import state_folder
from windlass.server.attach import source
from windlass.server.errors import ApiError
from windlass.worlds.trouble import WorldError

_OFFERED = 200


def job_names(incomplete: str) -> list[tuple[str, str]]:
    """Ids and their states, the latest first. Completion never complains."""
    given = os.environ.get("WINDLASS_STATE")
    try:
        asked = source(state_folder(Path(given) if given else None))
        jobs = asked.jobs(all="1", limit=_OFFERED)
    except (ApiError, WorldError, OSError):
        return []
    return [(job["id"], job["phase"]) for job in jobs if job["id"].startswith(incomplete)]
