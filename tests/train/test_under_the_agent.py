"""Ranks that are killed, asked to leave, stopped or hang, under the agent: the last loss is the undisturbed run's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SCRIPT = HERE / "faulty_script.py"


def trained(place: Path, faults: str = "", *options: str):
    """What the run printed, and the loss of each step as it was computed last."""
    agent = [sys.executable, "-m", "windlass.agent", "--nproc-per-node", "2", "--max-restarts", "3", *options]
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    ran = subprocess.run(
        [*agent, SCRIPT, place, faults], env=env, capture_output=True, text=True, check=False, timeout=110
    )
    losses = dict(re.findall(r"step (\d+): (\d+\.\d+)", ran.stdout))
    return ran, losses


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    ran, losses = trained(tmp_path_factory.mktemp("undisturbed"))
    assert ran.returncode == 0, ran.stderr
    assert len(losses) == 24
    return losses


@pytest.mark.parametrize("faults", ["9:1:kill", "5:0:kill,13:1:kill,20:0:kill"])
def test_killed_ranks_cost_at_most_what_came_after_the_last_checkpoint(faults, undisturbed, tmp_path):
    ran, losses = trained(tmp_path, faults)
    assert ran.returncode == 0, ran.stderr
    assert losses == undisturbed
    assert ran.stderr.count("killed by SIGKILL; generation") == len(faults.split(","))


def test_a_rank_that_is_asked_to_leave_saves_with_all_and_nothing_is_computed_twice(undisturbed, tmp_path):
    ran, losses = trained(tmp_path, "9:1:term")
    assert ran.returncode == 0, ran.stderr
    assert losses == undisturbed
    assert re.findall(r"step (\d+):", ran.stdout) == [str(step) for step in range(24)]


@pytest.mark.parametrize("what", ["hang", "stop"])
def test_a_rank_that_hangs_is_named_and_all_go_on(what, undisturbed, tmp_path):
    ran, losses = trained(tmp_path, f"9:1:{what}", "--hang", "factor=8,floor=3,first=60")
    assert ran.returncode == 0, ran.stderr
    assert losses == undisturbed
    assert "hang: rank 1 is in forward of step 9" in ran.stderr


def test_a_script_that_is_slow_between_steps_and_in_evaluations_does_not_hang(undisturbed, tmp_path):
    ran, losses = trained(tmp_path, "12:1:dawdle", "--hang", "factor=2,floor=2,first=60")
    assert ran.returncode == 0, ran.stderr
    assert losses == undisturbed
    assert "hang" not in ran.stderr


def test_an_error_on_one_rank_is_told_once_and_by_that_rank(tmp_path):
    ran, _ = trained(tmp_path, "9:1:raise")
    assert ran.returncode == 85
    assert ran.stderr.count("windlass: rank 1: this rank has a bad sample") == 1
    assert "Traceback" not in ran.stderr
