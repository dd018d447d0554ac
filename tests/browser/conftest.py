"""Debian's chromium, driven by Playwright. Where there is none, these tests say so and are skipped."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless browser; one for all tests of a file, each of which opens a context of its own.

    Not one for all files: while Playwright runs, its event loop does, and no other test could start one.
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
    """Open a file; whatever the page complains of, or asks the network for, fails the test at its end."""
    contexts: list[Any] = []
    trouble: list[str] = []

    def open_page(url: str, *, width: int = 1280, dark: bool = False) -> Any:
        scheme = "dark" if dark else "light"
        contexts.append(browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme))
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("console", lambda said: trouble.append(said.text))
        page.on("request", lambda asked: None if asked.url == url else trouble.append(asked.url))
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not trouble
