"""A browser that has signed in to the dashboard of a daemon."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from terminal import ok


class Visit:
    """A signed-in browser context. `trouble`: errors of its pages, and requests to any other server."""

    def __init__(self, browser: Any, state: Path, *options: str, width: int = 1280, dark: bool = False) -> None:
        link = ok(state, "ui", "--no-browser", "--port", "0", *options).strip()
        self.base = link.partition("/login")[0]
        scheme = "dark" if dark else "light"
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.trouble: list[str] = []
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on("console", lambda message: self.trouble.append(message.text))
        self.page.on("request", self._note_request)
        self.page.goto(link)

    def _note_request(self, request: Any) -> None:
        if not request.url.startswith((self.base, "blob:", "data:")):
            self.trouble.append(request.url)

    def see(self, path: str) -> Any:
        self.page.goto(self.base + path)
        self.page.wait_for_selector("main[data-ready]")
        return self.page
