"""Every command of the guides to other programs, with those programs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from guide_steps import run_guide
from pipeline_programs import python_path
from terminal import environment, windlass

import strays

ROOT = Path(__file__).parents[2]


def steps_of(name: str, tmp_path: Path, programs: Path) -> str:
    """Runs a guide with a state folder of its own; returns what its commands print."""
    folder, state = tmp_path / "work", tmp_path / "guide-state"
    folder.mkdir()
    (folder / "examples").symlink_to(ROOT / "examples")
    links = tmp_path / "bin"
    links.mkdir()
    for program in ("python", "torchx", "airflow"):
        # The ranks of jobs have the Python of this project, which is next on the PATH.
        (links / program).write_text(f'#!/bin/sh\nPATH="${{PATH#*:}}" exec {programs}/{program} "$@"\n')
        (links / program).chmod(0o755)
    env = environment(state, PYTHONPATH=python_path(tmp_path / "metadata"), HOME=str(folder))
    try:
        return run_guide(ROOT / "docs/guides" / name, folder, env, links)
    finally:
        windlass(state, "down", "--yes")
        strays.assert_none_left([state])


@pytest.mark.timeout(900)
def test_every_command_of_the_guide_to_pipelines_works(tmp_path, programs):
    printed = steps_of("pipelines.md", tmp_path, programs)
    assert "'accuracy': 0.9" in printed
    assert re.search(r"accuracy 0\.[89]", printed)


@pytest.mark.timeout(600)
def test_every_command_of_the_guide_from_torchx_works(tmp_path, programs):
    assert steps_of("from-torchx.md", tmp_path, programs).count("test accuracy") == 3
