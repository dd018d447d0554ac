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


def test_waiting_jobs_are_one_class_once_their_begin_times_have_come() -> None:
    stage = Stage()
    stage.play(["nodes n1 gpu=2", "submit a-1 gpu=2"])
    stage.play([f"submit b-{number} gpu=2 begin={number}s" for number in range(2, 7)])
    stage.play(["wait 4s"])
    assert sorted(len(each.gangs) for each in stage.controller.snapshot().classes) == [1, 1, 3]
    stage.play(["takeover", "wait 10s"])
    assert [len(each.gangs) for each in stage.controller.snapshot().classes] == [5]
