"""Every golden script plays as it is written."""

from pathlib import Path

import pytest
from stage import Stage, replay

SCRIPTS = sorted(Path(__file__).parent.glob("*.scenario"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_scenario(script: Path, request: pytest.FixtureRequest) -> None:
    written = script.read_text()
    played = replay(written, Stage())
    if request.config.getoption("--rewrite"):
        script.write_text(played)
        return
    assert played == written
