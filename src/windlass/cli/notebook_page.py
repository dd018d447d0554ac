"""The page of a notebook that listens: printed, and opened in a browser without its token in a command line."""

from __future__ import annotations

import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windlass.cli import job_messages
from windlass.core.model.status import TERMINAL
from windlass.jupyter.folder import page_of, write_redirect
from windlass.server.errors import ApiError, ErrorCode

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class NotebookPage:
    """A port of this machine, and the token. `redirect`: the private file that a browser opens first."""

    port: int
    token: str
    redirect: Path

    def show(self, *, browser: bool) -> None:
        """Prints the address, and opens it in a browser."""
        page = page_of(self.port, self.token)
        print(page, flush=True)
        if browser:
            write_redirect(self.redirect, page)
            webbrowser.open(self.redirect.as_uri())


def refuse_ended(job: Json) -> None:
    """Raises ApiError for the job of a notebook that has ended: its page never comes."""
    if job["phase"] in TERMINAL:
        said = job_messages.end_lines(job, "")[0]
        raise ApiError(ErrorCode.WRONG_STATE, f"the notebook has ended: {said}", f"windlass logs {job['id']}")
