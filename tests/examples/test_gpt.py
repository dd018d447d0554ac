"""The GPT example learns something, and goes on where it stopped, on another number of ranks too."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from forked_ranks import ForkedScript, agent_environment

from windlass.jobs.description.job_file import load

SCRIPT = Path(__file__).parents[2] / "examples/gpt/train.py"


WINDLASS = Path(sys.executable).with_name("windlass")
FIRST_STEPS, STEPS, HEAD_STEPS = 4, 12, 4


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """Checkpoint folder and output of FIRST_STEPS steps in one process."""
    folder = tmp_path_factory.mktemp("body")
    return folder, ForkedScript(SCRIPT, "--steps", FIRST_STEPS, "--checkpoint-dir", folder).finish()


def train_on_two_ranks(folder, steps):
    agent = [sys.executable, "-m", "windlass.agent", "--nproc-per-node", "2"]
    env = {**os.environ, **agent_environment()}
    command = [*agent, SCRIPT, "--steps", str(steps), "--checkpoint-dir", folder]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout


def validation_loss(output):
    return float(re.findall(r"validation loss (\d\.\d+)", output)[-1])


@pytest.mark.timeout(400)
def test_the_validation_loss_falls_over_a_restart_on_two_ranks(first, tmp_path):
    folder, output = first
    copied = shutil.copytree(folder, tmp_path / "run")
    second = train_on_two_ranks(copied, STEPS)
    assert f"resumed after step {FIRST_STEPS}, saved on dp=1" in second
    assert validation_loss(second) < validation_loss(output) - 0.2
    assert "sample:\ndef " in output


@pytest.mark.timeout(400)
def test_a_head_learns_on_the_frozen_body_that_was_exported(first, tmp_path):
    folder, _ = first
    body = tmp_path / "body.safetensors"
    ForkedScript(WINDLASS, "checkpoint", "export", folder, "--only", "model", "--to", body).finish()
    options = ("--body", body, "--steps", HEAD_STEPS, "--checkpoint-dir", tmp_path / "head")
    output = ForkedScript(SCRIPT.with_name("finetune.py"), *options).finish()
    assert re.search(r"\d+\.\d% of pieces classified correctly, of 6 packages", output)


@pytest.mark.parametrize("name", ["job", "mesh", "elastic", "finetune"])
def test_its_job_files_are_read(name):
    assert load(str(SCRIPT.with_name(f"{name}.yaml")))
