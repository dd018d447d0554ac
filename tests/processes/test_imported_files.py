"""Files of SkyPilot and TorchX from import to trained model, as their guides show it."""

from __future__ import annotations

from pathlib import Path

from guide_steps import run_guide
from terminal import environment

ROOT = Path(__file__).parents[2]


def test_every_command_of_the_guide_from_skypilot_works(state: Path, tmp_path: Path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    printed = run_guide(ROOT / "docs/guides/from-skypilot.md", tmp_path, environment(state))
    assert "test accuracy" in printed
