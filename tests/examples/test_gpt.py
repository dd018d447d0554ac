"""The GPT example learns something, and goes on where it stopped, on another number of ranks too."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from forked_ranks import ForkedScript

from windlass.jobs.description.job_file import load

SCRIPT = Path(__file__).parents[2] / "examples/gpt/train.py"


def train(folder, steps):
    return ForkedScript(SCRIPT, "--steps", steps, "--checkpoint-dir", folder).finish()


def train_on_two_ranks(folder, steps):
    agent = [sys.executable, "-m", "windlass.agent", "--nproc-per-node", "2"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [*agent, SCRIPT, "--steps", str(steps), "--checkpoint-dir", folder]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout


def validation_loss(output):
    return float(re.findall(r"validation loss (\d\.\d+)", output)[-1])


@pytest.mark.timeout(400)
def test_the_validation_loss_falls_over_a_restart_on_two_ranks(tmp_path):
    first = train(tmp_path, 8)
    second = train_on_two_ranks(tmp_path, 20)
    assert "resumed after step 8, saved on dp=1" in second
    assert validation_loss(second) < validation_loss(first) - 0.2
    assert "sample:\ndef " in first


@pytest.mark.timeout(400)
def test_a_head_learns_on_the_frozen_body_that_was_exported(tmp_path):
    train(tmp_path / "body", 8)
    body = tmp_path / "body.safetensors"
    export = [Path(sys.executable).with_name("windlass"), "checkpoint", "export", tmp_path / "body"]
    subprocess.run([*export, "--only", "model", "--to", body], check=True, capture_output=True)
    finetune = SCRIPT.with_name("finetune.py")
    output = ForkedScript(finetune, "--body", body, "--steps", 20, "--checkpoint-dir", tmp_path / "head").finish()
    assert re.search(r"\d+\.\d% of pieces classified correctly, of 6 packages", output)


@pytest.mark.parametrize("name", ["job", "mesh", "elastic", "finetune"])
def test_its_job_files_are_read(name):
    assert load(str(SCRIPT.with_name(f"{name}.yaml")))
