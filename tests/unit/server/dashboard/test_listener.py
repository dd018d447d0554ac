"""The port of the dashboard: the next one of a folder has the address of the last."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from windlass.backends.local.paths import StatePaths
from windlass.server.dashboard.listener import DEFAULT_PORT, DashboardListener


@pytest.mark.parametrize(
    ("kept", "port"),
    [("7520", 7520), (None, DEFAULT_PORT), ("", DEFAULT_PORT), ("70000", DEFAULT_PORT), ("9" * 5_000, DEFAULT_PORT)],
)
def test_a_dashboard_has_the_port_of_the_last_one_of_its_folder(tmp_path: Path, kept: str | None, port: int) -> None:
    if kept is not None:
        (tmp_path / "dashboard-port").write_text(kept)
    nothing: Any = None
    assert DashboardListener(nothing, nothing, nothing, StatePaths(tmp_path))._read_last_port() == port
