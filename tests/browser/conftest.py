"""Debian's chromium, driven by Playwright; without it these tests are skipped."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

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


@pytest.fixture
def opened(browser: Any) -> Iterator[Callable[..., Any]]:
    """Returns a function that opens a file; an error or a network request of the page fails the test at its end."""
    contexts: list[Any] = []
    trouble: list[str] = []

    def open_page(url: str, *, width: int = 1280, dark: bool = False) -> Any:
        scheme = "dark" if dark else "light"
        contexts.append(browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme))
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("console", lambda message: trouble.append(message.text))
        page.on("request", lambda request: None if request.url == url else trouble.append(request.url))
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not trouble
