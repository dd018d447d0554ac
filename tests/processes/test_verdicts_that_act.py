"""`restart: {verdict: act}` on real processes: which failures use the limits of restarts, and which end the job."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from terminal import facts, windlass

SHELL = ["sh", "-c"]
SAME_STEP = """
import os, signal, time
for step in range(4):
    print(f"step {step} loss 0.5", flush=True)
if os.environ["RANK"] == "1":
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(60)
"""


def ended(state: Path, folder: Path, command: list[str], restart: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Runs a job that obeys its verdicts to its end; returns its details."""
    limits = {"backoff": "10ms", "verdict": "act", **restart}
    path = folder / "job.yaml"
    path.write_text(json.dumps({"name": "case", "command": command, "restart": limits, **fields}))
    ran = windlass(state, "run", "--workdir", str(folder), "--local-nodes", "2", "--local-gpus", "2", str(path))
    found = facts(state, "status", "case")
    assert found["phase"] in ("Succeeded", "Failed"), ran.stderr
    return dict(found)


class Case(NamedTuple):
    command: list[str]
    restart: dict[str, int]
    attempts: int
    reason: str
    message: str
    rules: tuple[str, ...]


CASES = {
    "a user error ends the job at its first attempt": Case(
        [sys.executable, "-c", "import no_such_package"],
        {"user": 5, "infrastructure": 5},
        1,
        "ExitCode",
        "not started again (restart.verdict): The environment of rank 0 lacks a package: no_such_package",
        ("package-missing",),
    ),
    "an infrastructure error uses its own limit": Case(
        [*SHELL, "kill -KILL $$"],
        {"user": 5, "infrastructure": 2},
        3,
        "Signal",
        "3 failures of infrastructure, 2 allowed (restart.infrastructure)",
        ("signal-9", "repeated-kill"),
    ),
    "an unknown error uses the limit of the program": Case(
        [*SHELL, "exit 7"],
        {"user": 2, "infrastructure": 5},
        3,
        "ExitCode",
        "3 failures of the program, 2 allowed (restarts)",
        ("exit-status", "repeated-end"),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_failure_uses_the_limit_of_its_class(state: Path, tmp_path: Path, case: Case):
    job = ended(state, tmp_path, case.command, case.restart)
    assert (job["attempts"], job["reason"]) == (case.attempts, case.reason), job
    assert case.message in job["message"]
    assert (job["diagnosis"]["rule"] in case.rules, job["diagnosis"]["generation"]) == (True, case.attempts), job


def test_each_class_of_failure_has_a_limit_of_its_own(state: Path, tmp_path: Path):
    script = "case $WINDLASS_GENERATION in 1) kill -KILL $$;; 2) exit 7;; esac"
    job = ended(state, tmp_path, [*SHELL, script], {"user": 1, "infrastructure": 1})
    assert (job["phase"], job["attempts"]) == ("Succeeded", 3), job


@pytest.mark.parametrize("launcher", ["plain", "agent"])
def test_a_rank_that_kills_itself_at_the_same_step_ends_the_job(state: Path, tmp_path: Path, launcher: str):
    (tmp_path / "train.py").write_text(SAME_STEP)
    ranks = {"nodes": 2} if launcher == "plain" else {"gpus": 2, "procs": 2}
    command = [sys.executable, "train.py"]
    job = ended(state, tmp_path, command, {"user": 16, "infrastructure": 16}, launcher=launcher, **ranks)
    told = "Rank 1 was ended by SIGKILL in each start, after step 3, 3 starts in a row"
    assert (job["phase"], job["attempts"], job["diagnosis"]["rule"]) == ("Failed", 3, "repeated-kill-at-step"), job
    assert job["diagnosis"]["text"].startswith(told)
    assert f"not started again (restart.verdict): {told}" in job["message"]
