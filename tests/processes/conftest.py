"""State folders for single tests, and the check that no process started for them outlives the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import strays


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Returns the path of a state folder that does not exist yet."""
    return tmp_path / "state"


@pytest.fixture(autouse=True)
def _no_process_is_left(tmp_path: Path) -> Iterator[None]:
    """Checks every state folder below the test's own folder."""
    yield
    strays.assert_none_left([file.parent for file in tmp_path.rglob("supervisor.lock")])
