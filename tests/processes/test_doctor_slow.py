"""`windlass doctor slow` on real jobs: one rank that works longer, and a loader that is slow on every rank."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from terminal import facts, windlass

TRAINING = """
import os, sys, time
import torch
from windlass import train

cause, steps = sys.argv[1], int(sys.argv[2])

class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 4096
    def __getitem__(self, index):
        if cause == "data":
            time.sleep(0.02)
        return torch.ones(64), torch.zeros(1)

with train.init() as run:
    model, optimizer = run.parallelize(lambda: torch.nn.Linear(64, 1), optimizer=torch.optim.SGD, lr=0.01)
    data = run.data(Samples(), global_batch=4)
    for batch in run.steps(data, steps):
        if cause == "straggler" and os.environ["RANK"] == "1":
            time.sleep(0.04)
        loss = run.backward(model, batch, torch.nn.functional.mse_loss)
        run.step(optimizer, loss=loss)
"""


def diagnose(state: Path, folder: Path, cause: str, ranks: int):
    """Runs a job to its end, and returns exit code and steps of the verb by name."""
    script = folder / "script.py"
    script.write_text(TRAINING)
    ran = windlass(state, "run", "--name", cause, "-N", str(ranks), "--", sys.executable, str(script), cause, "80")
    assert ran.returncode == 0, ran.stderr
    (job,) = facts(state, "history")
    found = windlass(state, "doctor", "slow", job["id"], "-o", "json")
    return found.returncode, {step["step"]: step for step in json.loads(found.stdout)["steps"]}


@pytest.mark.parametrize(("cause", "step"), [("straggler", "slow.straggler"), ("data", "slow.data")])
def test_the_cause_of_a_slow_job_comes_first(state: Path, tmp_path: Path, cause: str, step: str):
    code, steps = diagnose(state, tmp_path, cause, 2)
    assert next(iter(steps)) == step, steps
    assert steps[step]["share"] > 0.5, steps
    assert code == 1
    if cause == "straggler":
        assert "others wait for rank 1, which spends time in the script's own code" in steps[step]["text"]
    else:
        assert steps["slow.straggler"]["state"] == "ok"


def test_a_job_without_telemetry_is_told_so(state: Path):
    assert windlass(state, "run", "--name", "plain", "--", "true").returncode == 0
    (job,) = facts(state, "history")
    found = windlass(state, "doctor", "slow", job["id"])
    assert found.returncode == 0
    assert "no rank reports the times of its phases" in found.stdout
