"""The page of a notebook that listens: printed, and opened in a browser without its token in a command line."""

from __future__ import annotations

import webbrowser
from dataclasses import dataclass
from pathlib import Path

from windlass.jupyter.folder import page_of, write_redirect


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
