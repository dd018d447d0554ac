"""Ranks under the agent that are killed, stopped or hang: the last loss is that of the run without faults."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from forked_ranks import agent_environment

from windlass import wire
from windlass.controlplane.processes import free_port
from windlass.diagnose.flight.facts import read_hang_evidence

HERE = Path(__file__).parent
SCRIPT = HERE / "faulty_script.py"
PATH = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
ENV = {"PYTHONPATH": PATH, wire.GANG_SECRET: "5f" * 32}


def trained(place: Path, faults: str = "", *options: str, copies: str = "", mesh: str = ""):
    """Return the output of the run, and the last computed loss of each step."""
    agent = [sys.executable, "-m", "windlass.agent", "--nproc-per-node", "2", "--max-restarts", "3", *options]
    ran = subprocess.run(
        [*agent, SCRIPT, place, faults, copies],
        env={**os.environ, **agent_environment(), **ENV, "WINDLASS_MESH": mesh},
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


def test_restarted_ranks_resume_from_in_memory_replicas(undisturbed, tmp_path):
    ran, losses = trained(tmp_path, "9:1:retry,17:0:retry", copies="4 steps")
    assert ran.returncode == 0, ran.stderr
    assert losses == undisturbed
    assert re.findall(r"resumed after step (\d+), from in-memory replicas", ran.stdout) == ["8", "16"]


def test_ranks_of_a_lost_node_resume_from_the_replicas_of_their_partner(undisturbed, tmp_path):
    """Two nodes of one rank each; one agent is killed with its ranks and memory, and another one replaces it."""
    place, port = tmp_path / "run", free_port()
    first, second = (start(place, port, tmp_path / name) for name in ("first", "second"))
    until(tmp_path / "first", tmp_path / "second", "step 9: ")
    second.kill()
    second.wait()
    third = start(place, port, tmp_path / "third")
    assert [each.wait(100) for each in (first, third)] == [0, 0]
    output = (tmp_path / "first").read_text() + (tmp_path / "third").read_text()
    assert re.search(r"resumed after step \d+, from in-memory replicas", output), output
    all_output = "".join((tmp_path / name).read_text() for name in ("first", "second", "third"))
    assert dict(re.findall(r"step (\d+): (\d+\.\d+)", all_output)) == undisturbed


def start(place: Path, port: int, output: Path) -> subprocess.Popen[bytes]:
    meeting = ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=run"]
    command = [sys.executable, "-m", "windlass.agent", "--nnodes=2", "--nproc-per-node=1", "--max-restarts=3", *meeting]
    with output.open("wb") as out:
        return subprocess.Popen(
            [*command, SCRIPT, place, "", "4 steps", "0.3"],
            env={**os.environ, **agent_environment(), **ENV},
            stdout=out,
            stderr=out,
        )


def until(*where: object) -> None:
    """Wait until one of these files contains the text."""
    *files, text = where
    deadline = time.monotonic() + 60
    while not any(str(text) in Path(str(file)).read_text() for file in files):
        assert time.monotonic() < deadline, [Path(str(file)).read_text() for file in files]
        time.sleep(0.05)


def test_each_rank_reports_a_lost_peer_in_one_line_where_recovery_is_impossible(tmp_path):
    ran, losses = trained(tmp_path, "9:1:kill", mesh="tp=2")
    assert ran.returncode == 0, ran.stderr
    assert len(losses) == 24
    assert "killed by SIGKILL; generation 2 after" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("faults", ["9:1:kill", "5:0:kill,13:1:kill,20:0:kill"])
def test_killed_ranks_cost_no_progress_and_leave_no_processes(faults, undisturbed, tmp_path, monkeypatch):
    (temporary := tmp_path / "tmp").mkdir()
    monkeypatch.setitem(ENV, "TMPDIR", str(temporary))
    ran, losses = trained(tmp_path / "run", faults)
    assert ran.returncode == 0, ran.stderr
    assert losses == undisturbed
    assert ran.stderr.count("killed by SIGKILL; generation") == len(faults.split(","))
    assert ran.stderr.count("1 rank went on, 1 started anew") == len(faults.split(","))
    assert not list(temporary.glob("windlass-*"))


def test_a_stop_signal_to_one_rank_saves_on_all_ranks_and_repeats_no_step(undisturbed, tmp_path):
    ran, losses = trained(tmp_path, "9:1:term")
    assert ran.returncode == 0, ran.stderr
    assert losses == undisturbed
    assert re.findall(r"step (\d+):", ran.stdout) == [str(step) for step in range(24)]


@pytest.mark.parametrize("what", ["hang", "stop"])
def test_a_hanging_rank_is_named_and_the_run_continues(what, undisturbed, tmp_path):
    hang = "factor=8,floor=3,initial=60"
    ran, losses = trained(tmp_path / "run", f"9:1:{what}", "--hang", hang, "--log-dir", str(tmp_path / "logs"))
    assert ran.returncode == 0, ran.stderr
    assert losses == undisturbed
    assert "hang: rank 1 is in forward of step 9" in ran.stderr
    (attempt,) = tmp_path.glob("logs/*/attempt_0")
    (fact,) = read_hang_evidence([path for path in attempt.rglob("*") if path.is_file()], expected_ranks=2).facts
    assert fact.values["waiting"] == "0"
    assert fact.values["place"].startswith("faulty_script.py:")
    if what == "hang":
        assert (fact.rule, fact.rank) == ("flight-missing-rank", 1)
        assert re.fullmatch(r"faulty_script.py:\d+ in fail", fact.values["now"])
    else:  # a stopped process writes no dump
        assert (fact.rule, fact.rank) == ("flight-rank-without-dump", 1)


HANGS_BEFORE_THE_START = """
import os, time
from windlass import train
def import_slowly():
    time.sleep(1000)
if (os.environ["RANK"], os.environ["WINDLASS_GENERATION"]) == ("1", "1"):
    import_slowly()
with train.init() as run:
    run.print("joined")
"""


def test_a_rank_that_hangs_before_its_start_is_named_by_those_that_wait_in_init(tmp_path):
    (tmp_path / "script.py").write_text(HANGS_BEFORE_THE_START)
    agent = [sys.executable, "-m", "windlass.agent", "--nproc-per-node=2", "--max-restarts=3", "--hang=start=4"]
    ran = subprocess.run(
        [*agent, tmp_path / "script.py"],
        env={**os.environ, **agent_environment(), **ENV},
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert ran.returncode == 0, ran.stderr
    assert "hang: rank 1 has started and sends no heartbeats for" in ran.stderr
    assert "rank 0 is in join of step 0" in ran.stderr
    assert "in import_slowly" in ran.stderr
    assert "joined" in ran.stdout


def test_a_script_that_is_slow_between_steps_and_in_evaluations_is_not_taken_for_a_hang(undisturbed, tmp_path):
    ran, losses = trained(tmp_path, "12:1:dawdle", "--hang", "factor=2,floor=2,initial=60")
    assert ran.returncode == 0, ran.stderr
    assert losses == undisturbed
    assert "hang" not in ran.stderr


def test_an_error_on_one_rank_is_printed_once_by_that_rank(tmp_path):
    ran, _ = trained(tmp_path, "9:1:raise")
    assert ran.returncode == 85
    assert ran.stderr.count("windlass: rank 1: this rank has a bad sample") == 1
    assert "Traceback" not in ran.stderr
