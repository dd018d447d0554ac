"""Ranks that are killed, asked to leave, stopped or hang, under the agent: the last loss is the undisturbed run's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from forked_ranks import free_port

HERE = Path(__file__).parent
SCRIPT = HERE / "faulty_script.py"
PATH = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
ENV = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": PATH}


def trained(place: Path, faults: str = "", *options: str, copies: str = "", mesh: str = ""):
    """What the run printed, and the loss of each step as it was computed last."""
    agent = [sys.executable, "-m", "windlass.agent", "--nproc-per-node", "2", "--max-restarts", "3", *options]
    ran = subprocess.run(
        [*agent, SCRIPT, place, faults, copies],
        env=ENV | {"WINDLASS_MESH": mesh},
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    losses = dict(re.findall(r"step (\d+): (\d+\.\d+)", ran.stdout))
    return ran, losses


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    ran, losses = trained(tmp_path_factory.mktemp("undisturbed"))
    assert ran.returncode == 0, ran.stderr
    assert len(losses) == 24
    return losses


def test_ranks_that_start_anew_go_on_from_copies_in_memory(undisturbed, tmp_path):
    ran, losses = trained(tmp_path, "9:1:retry,17:0:retry", copies="4 steps")
    assert ran.returncode == 0, ran.stderr
    assert losses == undisturbed
    assert re.findall(r"resumed after step (\d+), from in-memory replicas", ran.stdout) == ["8", "16"]


def test_a_lost_nodes_ranks_go_on_from_the_copies_of_their_partner(undisturbed, tmp_path):
    """Two nodes of one rank each; one agent is killed with all it has, and another one comes in its place."""
    place, port = tmp_path / "run", free_port()
    first, second = (start(place, port, tmp_path / name) for name in ("first", "second"))
    until(tmp_path / "first", tmp_path / "second", "step 9: ")
    second.kill()
    second.wait()
    third = start(place, port, tmp_path / "third")
    assert [each.wait(100) for each in (first, third)] == [0, 0]
    said = (tmp_path / "first").read_text() + (tmp_path / "third").read_text()
    assert re.search(r"resumed after step \d+, from in-memory replicas", said), said
    told = "".join((tmp_path / name).read_text() for name in ("first", "second", "third"))
    assert dict(re.findall(r"step (\d+): (\d+\.\d+)", told)) == undisturbed


def start(place: Path, port: int, output: Path) -> subprocess.Popen[bytes]:
    meeting = ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=run"]
    command = [sys.executable, "-m", "windlass.agent", "--nnodes=2", "--nproc-per-node=1", "--max-restarts=3", *meeting]
    with output.open("wb") as out:
        return subprocess.Popen([*command, SCRIPT, place, "", "4 steps", "0.3"], env=ENV, stdout=out, stderr=out)


def until(*where: object) -> None:
    """One of these files has this text."""
    *files, text = where
    patience = time.monotonic() + 60
    while not any(str(text) in Path(str(file)).read_text() for file in files):
        assert time.monotonic() < patience, [Path(str(file)).read_text() for file in files]
        time.sleep(0.05)


def test_where_ranks_cannot_go_on_without_each_other_a_lost_one_is_told_in_a_line_each(tmp_path):
    ran, losses = trained(tmp_path, "9:1:kill", mesh="tp=2")
    assert ran.returncode == 0, ran.stderr
    assert len(losses) == 24
    assert "killed by SIGKILL; generation 2 after" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("faults", ["9:1:kill", "5:0:kill,13:1:kill,20:0:kill"])
def test_killed_ranks_cost_nothing_and_leave_nothing_behind(faults, undisturbed, tmp_path, monkeypatch):
    (temporary := tmp_path / "tmp").mkdir()
    monkeypatch.setitem(ENV, "TMPDIR", str(temporary))
    ran, losses = trained(tmp_path / "run", faults)
    assert ran.returncode == 0, ran.stderr
    assert losses == undisturbed
    assert ran.stderr.count("killed by SIGKILL; generation") == len(faults.split(","))
    assert ran.stderr.count("1 rank went on, 1 started anew") == len(faults.split(","))
    assert not list(temporary.glob("windlass-*"))


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
