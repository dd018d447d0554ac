"""A browser that has signed in to the dashboard of a daemon."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from terminal import ok

NETWORK_CHANGED = "net::ERR_NETWORK_CHANGED"
"""A browser drops its connections when this machine gets an address; tests of real nodes give it some."""


class Visit:
    """A signed-in browser context.

    `trouble`: errors of its pages, and requests to any other server. `drops`: number of lost connections.
    """

    def __init__(self, browser: Any, state: Path, *options: str, width: int = 1280, dark: bool = False) -> None:
        scheme = "dark" if dark else "light"
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.trouble: list[str] = []
        self.drops = 0
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on("console", lambda message: self._note_message(message.text))
        self.page.on("request", self._note_request)
        self._sign_in(state, *options)

    def _sign_in(self, state: Path, *options: str) -> None:
        """Opens a link that signs in, which does so once."""
        link = ok(state, "ui", "--no-browser", "--port", "0", *options).strip()
        self.base = link.partition("/login")[0]
        if not self._reached(link) and not self.page.url.startswith(self.base):
            self._sign_in(state, *options)

    def _note_message(self, text: str) -> None:
        if NETWORK_CHANGED in text:
            self.drops += 1
        else:
            self.trouble.append(text)

    def _note_request(self, request: Any) -> None:
        if not request.url.startswith((self.base, "blob:", "data:")):
            self.trouble.append(request.url)

    def see(self, path: str) -> Any:
        while not self._reached(self.base + path):
            pass
        self.page.wait_for_selector("main[data-ready]")
        return self.page

    def _reached(self, url: str) -> bool:
        """Opens an address; False if a connection was lost meanwhile."""
        from playwright.sync_api import Error  # noqa: PLC0415 - starts a driver of its own

        before = self.drops
        try:
            self.page.goto(url)
        except Error as error:
            if NETWORK_CHANGED not in error.message:
                raise
            return False
        return self.drops == before
