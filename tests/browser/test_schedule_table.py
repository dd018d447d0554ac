"""Schedules on the Queue page of the dashboard."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from dashboard_visit import Visit
from terminal import ok

import strays


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    state = tmp_path_factory.mktemp("schedules") / "state"
    ok(state, "up", "-d", "--local-nodes", "1", "--local-gpus", "1")
    yield state
    ok(state, "down", "--yes")
    strays.assert_none_left([state])


def test_the_queue_shows_schedules_with_their_last_runs_and_teaches_how_to_make_one(
    visit: Callable[..., Visit], daemon: Path
):
    page = visit().see("/queue#schedules")
    schedules = page.locator("#schedules")
    schedules.get_by_text("windlass submit --name nightly").wait_for()
    ok(daemon, "submit", "--name", "nightly", "--cron", "0 3 * * *", "--cpus", "0", "--", "true")
    run = ok(daemon, "submit", "--from", "nightly").strip()
    row = schedules.get_by_role("row", name="nightly")
    row.get_by_role("link", name=run).wait_for(timeout=20_000)
    row.get_by_text("waits for its time").wait_for(timeout=20_000)
    assert row.get_by_role("cell", name="0 3 * * * (UTC)").is_visible()
    ok(daemon, "suspend", "nightly")
    row.get_by_text("suspended").wait_for(timeout=20_000)
    ok(daemon, "cancel", "nightly")
    schedules.get_by_text("windlass submit --name nightly").wait_for(timeout=20_000)
