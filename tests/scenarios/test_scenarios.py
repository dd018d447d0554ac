"""Every golden script plays as it is written."""

from pathlib import Path

import pytest
from stage import Stage

SCRIPTS = sorted(Path(__file__).parent.glob("*.scenario"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_scenario(script: Path, request: pytest.FixtureRequest) -> None:
    written = script.read_text()
    played = play(written)
    if request.config.getoption("--rewrite"):
        script.write_text(played)
        return
    assert played == written


def play(text: str) -> str:
    """The script with every answer replaced by what the stage says now."""
    stage, out = Stage(), []
    for block in text.strip("\n").split("\n\n"):
        asked = block.split("\n----")[0].splitlines()
        lines = [line for line in asked if line and not line.startswith("#")]
        out.append("\n".join([*asked, "----", *stage.play(lines)]) if lines else block)
    return "\n\n".join(out) + "\n"
