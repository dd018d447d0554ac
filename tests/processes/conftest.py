"""State folders of their own, and the promise that nothing started on their behalf outlives a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import strays


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder that does not exist yet."""
    return tmp_path / "state"


@pytest.fixture(autouse=True)
def _nothing_is_left(tmp_path: Path) -> Iterator[None]:
    """Every folder below the test's own that has been used as a state folder is checked."""
    yield
    strays.assert_none([file.parent for file in tmp_path.rglob("supervisor.lock")])
