"""`windlass scaling` on real processes: a script that reports its steps as the training library does, and others."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

from terminal import facts, start, windlass

DIVIDES_ITS_WORK = """
import os, socket, sys, time
from windlass import wire
ranks = int(os.environ["WORLD_SIZE"])
print("ready", flush=True)
if os.environ["RANK"] == "0":
    reports = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    for step in range(10, int(sys.argv[1]) + 1, 10):
        time.sleep(0.05)
        values = {"step_ms": 8.0 / ranks, "samples_per_second": 8000.0 * ranks, "forward_ms": 6.0 / ranks}
        reports.sendto(wire.encode(wire.Telemetry(0, 1, step, values)), os.environ[wire.TELEMETRY_SOCKET])
else:
    time.sleep(600)
"""


def script(folder: Path, text: str) -> tuple[str, str, str]:
    file = folder / "script.py"
    file.write_text(text)
    return "--", sys.executable, str(file)


def test_ranks_are_compared_and_ended_after_enough_steps(state: Path, tmp_path: Path):
    picture = tmp_path / "out.svg"
    command = (*script(tmp_path, DIVIDES_ITS_WORK), "100000")
    ran = windlass(state, "scaling", "--ranks", "1,2", "--steps", "20", "--plot", str(picture), "-o", "json", *command)
    assert ran.returncode == 0, ran.stderr
    one, two = json.loads(ran.stdout)
    assert (one["ranks"], one["speedup"], one["step_ms"]) == (1, 1.0, 8.0)
    assert (two["ranks"], two["speedup"], two["efficiency"]) == (2, 2.0, 1.0)
    assert two["phases"] == {"forward": 3.0, "other": 1.0}
    assert two["steps"] >= 20
    assert "2 ranks: 1.6e+04 samples/s over" in ran.stderr
    assert picture.read_text().startswith("<svg")
    assert [job["phase"] for job in facts(state, "history")] == ["Failed", "Failed"]  # cancelled, each by us


def test_a_script_without_reports_is_compared_by_whole_runs(state: Path):
    ran = windlass(state, "scaling", "--ranks", "1,2", "--", "sh", "-c", "sleep 0.2")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[0].split() == ["RANKS", "SPEED-UP", "EFFICIENCY", "RAN"]
    assert "no step times were reported (windlass.train reports them): whole runs are compared" in ran.stderr


def test_an_impossible_size_is_refused_before_any_run(state: Path):
    ran = windlass(state, "scaling", "--ranks", "1,2,4", "-G", "1", "--local-gpus", "2", "--", "true")
    assert ran.returncode == 3
    assert "true can never run here: needs 4 gpu on one node" in ran.stderr
    assert facts(state, "history") == []


def test_too_few_steps_and_failures_are_errors(state: Path, tmp_path: Path):
    short = windlass(state, "scaling", "--ranks", "1,2", *script(tmp_path, DIVIDES_ITS_WORK.replace("600", "0")), "10")
    assert short.returncode == 2
    assert "it ended after step 10 without a measured step" in short.stderr
    failed = windlass(state, "scaling", "--ranks", "1,2", "--", "sh", "-c", "exit 7")
    assert failed.returncode == 1
    assert "the job failed on 2 ranks" in failed.stderr


def test_ctrl_c_ends_the_current_run(state: Path, tmp_path: Path):
    waits = script(tmp_path, "import os, time; open('began', 'w').close(); time.sleep(600)")
    scaling = start(state, "scaling", "--ranks", "1,2", *waits, cwd=tmp_path)
    while not (tmp_path / "began").exists():
        assert scaling.poll() is None
    scaling.send_signal(signal.SIGINT)
    output, _ = scaling.communicate(timeout=60)
    assert scaling.returncode == 130
    assert "interrupted; the run was cancelled, and nothing is compared" in output
