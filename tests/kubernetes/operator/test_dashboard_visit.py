"""A visit of the dashboard of a cluster in chromium: sign-in, pages of the own namespace, sign-out."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from backend_host import Behaviour
from dashboard_place import EDIT, VIEW, DashboardPlace, dashboard

import strays
from windlass.controlplane.cluster import ControlPlane
from windlass.server.operator.dashboard.port import DashboardOptions

pytestmark = pytest.mark.apiserver
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PAGES = ("/", "/nodes", "/share", "/history", "/jobs/team-a/run")


@asynccontextmanager
async def browser_page(trouble: list[str]) -> AsyncIterator[Any]:
    """A page of Debian's chromium that accepts the operator's own certificate. `trouble` gets its errors."""
    from playwright.async_api import async_playwright  # noqa: PLC0415 - starts a driver of its own

    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip("no chromium here, and only root may install it: apt-get install chromium")
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # as root chromium has none
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=program, args=[*sandbox, "--disable-dev-shm-usage"])
        context = await started.new_context(ignore_https_errors=True, viewport={"width": 1280, "height": 900})
        context.set_default_timeout(strays.TIMEOUT_S * 1000)
        page = await context.new_page()
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("console", lambda message: trouble.append(message.text) if message.type == "error" else None)
        yield page
        await started.close()


async def visit(place: DashboardPlace, page: Any, trouble: list[str]) -> None:
    # 1. a page leads to the sign-in, which refuses a wrong token
    await page.goto(f"{place.url}/queue")
    assert page.url == f"{place.url}/login?to=/queue"
    await page.fill("#token", "a.b.c")
    await page.click("#form button")
    await page.wait_for_function("document.getElementById('trouble').textContent.includes('does not accept')")
    assert all("401" in text for text in trouble), trouble  # the browser reports refusals
    trouble.clear()

    # 2. and goes on to the page with a right one; it shows the own namespace only
    await page.fill("#token", await place.token("team-a", "ann"))
    await page.click("#form button")
    await page.wait_for_url(f"{place.url}/queue")
    await page.wait_for_selector("text=team-a/run")
    assert await page.locator("#live").get_attribute("data-state") == "live"
    assert "team-b" not in await page.inner_text("body")
    for path in PAGES:
        await page.goto(place.url + path)
        await page.wait_for_selector("main[data-ready=true]")
        assert await page.locator(".problem").count() == 0, (path, await page.inner_text("main"))
        assert "team-b/hidden" not in await page.content()
    assert "Suspend" in await page.inner_text("main")

    # 3. a change, after a question
    await page.click("button:has-text('Suspend')")
    await page.click("#dialog button:has-text('Suspend')")
    await page.wait_for_selector("button:has-text('Resume')")
    assert await page.evaluate("document.cookie") == ""

    # 4. the job's page in both themes, and further changes
    await change(place, page)

    # 5. the link of another user names it and asks, and works once
    refusals = list(trouble)
    body = {"token": await place.token("team-b", "bob"), "link": True}
    made = await place.visitor().request("POST", "/login", body)
    await page.goto(f"{place.url}/login?code={made.json['code']}")
    await page.wait_for_selector("text=system:serviceaccount:team-b:bob")
    assert page.url == f"{place.url}/login"
    await page.goto(f"{place.url}/queue")
    await page.wait_for_selector("text=team-a/run")
    await page.goto(f"{place.url}/login?code={made.json['code']}")
    await page.click("#continue")
    await page.wait_for_url(f"{place.url}/")
    await page.goto(f"{place.url}/login")
    await page.wait_for_selector("#signed-in >> text=system:serviceaccount:team-b:bob")

    # 6. the sign-out
    await page.click("#out")
    await page.wait_for_selector("#form", state="visible")
    await page.goto(place.url)
    assert page.url == f"{place.url}/login?to=/"
    assert refusals == []


async def change(place: DashboardPlace, page: Any) -> None:
    """Looks at a job on a phone and on a wall, changes its priority, ends it, and runs it again."""
    await page.goto(f"{place.url}/jobs/team-a/run")
    await page.wait_for_selector(
        "#checkpoints:has-text('windlass exec team-a/run -- windlass checkpoint ls /data/run')"
    )
    await inspect(page)
    await page.goto(f"{place.url}/jobs/team-a/dash")
    await page.wait_for_selector(
        "#checkpoints:has-text(\"windlass exec team-a/dash -- windlass checkpoint ls -- '-x y'\")"
    )
    await page.goto(f"{place.url}/jobs/team-a/run")

    await answer(page, "Priority", "Change", "-1")
    await page.locator(".facts div", has_text="Priority").get_by_text("-1").wait_for()
    await answer(page, "Cancel", "Cancel")
    await page.locator(".state.Cancelled").wait_for()
    await answer(page, "Run again", "Run again")
    await page.wait_for_url(lambda url: "/jobs/team-a/run-" in url)
    await page.locator(".state.Running").wait_for()
    assert await page.locator(".problem").count() == 0


async def answer(page: Any, action: str, button: str, text: str = "") -> None:
    """Chooses an action on the job, and answers its question."""
    await page.locator(".head .tools").get_by_role("button", name=action).click()
    dialog = page.get_by_role("dialog")
    if text:
        await dialog.get_by_role("spinbutton").fill(text)
    await dialog.get_by_role("button", name=button).click()


async def inspect(page: Any) -> None:
    """Fails if the page is wider than its window, or has faults that axe-core knows."""
    from axe_playwright_python.async_playwright import Axe  # noqa: PLC0415 - beside playwright

    for width, scheme in itertools.product((390, 2400), ("light", "dark")):
        await page.set_viewport_size({"width": width, "height": 900})
        await page.emulate_media(color_scheme=scheme)
        await page.wait_for_timeout(500)  # axe reads colors, and bars change theirs slowly
        assert await page.evaluate("document.documentElement.scrollWidth") <= width
        found = await Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21aa"]})
        assert found.violations_count == 0, f"{width} {scheme}: {found.generate_report()}"
    await page.set_viewport_size({"width": 1280, "height": 900})


def test_a_user_signs_in_sees_the_own_jobs_and_changes_one(apiserver: ControlPlane, tmp_path: Path) -> None:
    async def story() -> None:
        trouble: list[str] = []
        options = DashboardOptions(0, allows_actions=True)
        async with (
            asyncio.timeout(strays.TIMEOUT_S * 12),
            dashboard(apiserver, tmp_path, options) as place,
            browser_page(trouble) as page,
        ):
            await place.grant(VIEW, "team-a", "ann")
            await place.grant(EDIT, "team-a", "ann")
            places = {"team-a/run": "/data/run", "team-a/dash": "-x y", "team-b/hidden": "/data/hidden"}
            for job, checkpoints in places.items():
                team, name = job.split("/")
                await place.submit(team, name, Behaviour.RUN, env={"WINDLASS_CHECKPOINTS": checkpoints})
                await place.place.phase(f"{team}/{name}", "Running")
            await visit(place, page, trouble)

    asyncio.run(story())
