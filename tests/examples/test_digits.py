"""The digits example as people run it, on real processes: through the command line, and killed on the way."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from forked_ranks import ForkedScript, finish_on_ranks

from torch_forks import link_python

SCRIPT = Path(__file__).parents[2] / "examples/digits/train.py"
PYTHON = sys.executable
WINDLASS = Path(sys.executable).with_name("windlass")

pytestmark = pytest.mark.timeout(300)  # every rank imports PyTorch, on two cores, beside other tests


def start(folder, *words):
    """The command line on a state folder of its own, in a folder of its own."""
    env = {**os.environ, "WINDLASS_STATE": str(folder / "state")}
    return subprocess.Popen([WINDLASS, *words], env=env, cwd=folder, stdout=subprocess.PIPE, text=True)


def accuracy(output):
    return float(re.search(r"test accuracy (\d\.\d+)", output)[1])


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """Output of two ranks under the command line, of which one is killed after epoch 3."""
    folder = tmp_path_factory.mktemp("killed")
    run = start(folder, "run", "-N", "2", "-G", "1", "--", link_python(folder / "bin"), SCRIPT)
    output, was_killed = "", False
    for line in run.stdout:
        output += line
        if "epoch 3/" in line and not was_killed:
            os.kill(pid_of_rank(1, folder), signal.SIGKILL)
            was_killed = True
    assert run.wait() == 0
    return output


def test_two_ranks_learn_the_digits(killed):
    assert re.search(r"2 ranks, (gloo|nccl)", killed)
    assert accuracy(killed) >= 0.97


def test_a_killed_rank_changes_nothing_in_the_result(killed):
    assert int(re.search(r"resumed after epoch (\d+)", killed)[1]) >= 2
    assert accuracy(killed) == accuracy(finish_on_ranks(2, SCRIPT))


def pid_of_rank(rank, workdir):
    """The pid of a living rank of the job in `workdir`, as its agent tells it."""
    for board in workdir.rglob("ranks.json"):
        for entry in json.loads(board.read_text())["ranks"]:
            if entry["rank"] == rank:
                return entry["pid"]
    pytest.fail(f"rank {rank} is not running")


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Folder and output of one process without a launcher."""
    folder = tmp_path_factory.mktemp("alone")
    watched = "import os, train; train.main(); print('threads', len(os.listdir('/proc/self/task')))"
    command = [PYTHON, "-c", watched, "--epochs", "8"]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(SCRIPT.parent)}
    ran = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, check=True)
    return folder, ran.stdout


def test_one_process_without_a_launcher_is_a_world_of_one(alone):
    folder, output = alone
    assert accuracy(output) >= 0.97
    assert not list(folder.iterdir())


def test_no_thread_of_the_process_group_is_left_to_abort_at_the_end(alone):
    _, output = alone
    assert output.endswith("threads 1\n")


def test_a_checkpoint_half_written_is_never_read(tmp_path):
    options = ("--epochs", 8, "--checkpoint-dir", tmp_path)
    for delay in (0.0, 0.05):  # somewhere in the first save, and somewhere after it
        run = ForkedScript(SCRIPT, *options)
        next(line for line in run.output if line.startswith("epoch"))
        time.sleep(delay)
        run.kill()
    output = ForkedScript(SCRIPT, *options).finish()
    assert "8/8" in output
    assert accuracy(output) >= 0.97


def test_with_the_training_library_it_learns_as_much_goes_on_and_keeps_its_checkpoints(tmp_path):
    script = SCRIPT.with_name("train_windlass.py")
    ForkedScript(script, "--epochs", 2, "--checkpoint-dir", tmp_path).finish()
    output = finish_on_ranks(2, script, "--epochs", 8, "--checkpoint-dir", tmp_path)
    assert "resumed after step 44, saved on dp=1" in output
    assert accuracy(output) >= 0.97
