"""Runs every command of the guide to sharing a cluster.

A block of `sh` is run unchanged; `<!-- until VERB …: EXPRESSION -->` after it waits for an answer of -o json.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from terminal import environment, until, windlass

from torch_forks import link_python

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs/guides/sharing-a-cluster.md"
STEP = re.compile(
    r"^```(?P<kind>\w+)\n(?P<text>.*?)^```|^<!-- until (?P<words>[^:]+): (?P<wanted>.*?) -->", re.MULTILINE | re.DOTALL
)


def test_every_command_of_the_guide_works(state: Path, tmp_path: Path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    link_python(tmp_path / "bin")
    printed = ""
    try:
        for step in STEP.finditer(GUIDE.read_text()):
            if step["kind"] == "yaml":
                (tmp_path / step["text"].split()[1]).write_text(step["text"])
            elif step["kind"] == "sh":
                printed += run(state, tmp_path, step["text"])
            else:
                until(state, step["wanted"], *step["words"].split())
    finally:
        windlass(state, "down", "--yes")
    assert re.search(r"stop requested: saved after epoch (\d+)\n.*resumed after epoch \1\n", printed)
    assert float(re.search(r"test accuracy (\d\.\d+)", printed)[1]) > 0.95


def run(state: Path, folder: Path, script: str) -> str:
    """Runs commands that must all succeed; returns their output."""
    env = environment(state)
    env["PATH"] = f"{folder}/bin{os.pathsep}{env['PATH']}"
    ran = subprocess.run(["sh", "-ec", script], env=env, cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"{script}{ran.stdout}\n{ran.stderr}"
    return ran.stdout
