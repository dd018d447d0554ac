"""Debian's chromium, driven by Playwright; without it these tests are skipped."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from dashboard_visit import Visit

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Starts a headless browser for all tests of a file; each test opens a context of its own.

    Not for all files: while Playwright runs, so does its event loop, and no other test could start one.
    """
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip("no chromium here, and only root may install it: apt-get install chromium")
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - starts a driver of its own

    with sync_playwright() as playwright:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # as root chromium has none
        started = playwright.chromium.launch(executable_path=program, args=[*sandbox, "--disable-dev-shm-usage"])
        yield started
        started.close()


class Pages:
    """Opens pages in contexts of their own, and keeps the errors and network requests of all of them."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser
        self._contexts: list[Any] = []
        self.trouble: list[str] = []

    def open(self, url: str, *, width: int = 1280, dark: bool = False) -> Any:
        scheme = "dark" if dark else "light"
        context = self._browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self._contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: self.trouble.append(str(error)))
        page.on("console", lambda message: self.trouble.append(message.text))
        page.on("request", lambda request: None if request.url == url else self.trouble.append(request.url))
        page.goto(url)
        return page

    def close(self) -> None:
        for context in self._contexts:
            context.close()


@pytest.fixture
def opened(browser: Any) -> Iterator[Callable[..., Any]]:
    """Returns a function that opens a file; an error or a network request of the page fails the test at its end."""
    pages = Pages(browser)
    yield pages.open
    pages.close()
    assert not pages.trouble


@pytest.fixture(scope="module")
def _kept(browser: Any) -> Iterator[tuple[Pages, Callable[..., Any]]]:
    pages = Pages(browser)
    yield pages, cache(pages.open)
    pages.close()


@pytest.fixture
def shared(_kept: tuple[Pages, Callable[..., Any]]) -> Iterator[Callable[..., Any]]:
    """Returns a function like `opened`, for tests that change nothing: the same arguments give the same page."""
    pages, open_once = _kept
    yield open_once
    assert not pages.trouble


@pytest.fixture
def visit(browser: Any, daemon: Path) -> Iterator[Callable[..., Visit]]:
    """Returns a function that signs in; an error of a page or a foreign request fails the test at its end."""
    visits: list[Visit] = []

    def sign_in(*options: str, **how: Any) -> Visit:
        visits.append(Visit(browser, daemon, *options, **how))
        return visits[-1]

    yield sign_in
    for each in visits:
        each.context.close()
    assert not [text for each in visits for text in each.trouble]
