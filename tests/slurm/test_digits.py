"""`examples/digits` under a real Slurm by the batch script that `windlass render --for slurm` prints."""

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from windlass.backends.local.supervisor import proc
from windlass.cli.entry import main

pytestmark = pytest.mark.timeout(600)
EXAMPLE = Path(__file__).parents[2] / "examples" / "digits"


@pytest.fixture
def submit(slurm, tmp_path, capsys, monkeypatch):
    """Renders the example with options and arguments of train.py, submits the script, and returns its number."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    shutil.copy(EXAMPLE / "train.py", tmp_path)

    def submit(arguments: str, *options: str) -> str:
        text = (EXAMPLE / "job.yaml").read_text().replace("train.py", f"train.py {arguments}")
        (tmp_path / "job.yaml").write_text(text)
        assert main(["render", "--for", "slurm", *options, str(tmp_path / "job.yaml")]) == 0
        (tmp_path / "job.sbatch").write_text(capsys.readouterr().out)
        return slurm.call("sbatch", "--parsable", "--output=%j.out", "job.sbatch", cwd=tmp_path).strip()

    return submit


def output_of(number, tmp_path):
    file = tmp_path / f"{number}.out"
    return file.read_text() if file.exists() else ""


def pid_of_rank(number: str, rank: int) -> int:
    """The process of a rank, once it is Python."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            variables = proc.environment(int(entry.name))
            if variables.get(b"SLURM_JOB_ID") == number.encode() and variables.get(b"RANK") == str(rank).encode():
                return int(entry.name)
    raise AssertionError(f"no process of rank {rank}")


def test_two_nodes_with_two_ranks_each_train_to_the_end(slurm, submit, tmp_path):
    number = submit("--epochs 4", "-G", "2")
    job = slurm.wait_for_state(number, "COMPLETED", "FAILED")
    output = output_of(number, tmp_path)
    assert job["JobState"] == "COMPLETED", output
    assert "4 ranks, gloo" in output
    assert "epoch 4/4" in output
    assert "test accuracy" in output


def test_a_job_with_a_killed_rank_is_requeued_and_resumes_from_its_checkpoint(slurm, submit, tmp_path):
    number = submit("--epochs 30", "-G", "2")
    slurm.wait_for(lambda: "epoch 2/30" in output_of(number, tmp_path), timeout=200)
    os.kill(pid_of_rank(number, 3), signal.SIGKILL)
    slurm.wait_for(lambda: "resumed after epoch" in output_of(number, tmp_path), timeout=200)
    job = slurm.wait_for_state(number, "COMPLETED", "FAILED")
    assert (job["JobState"], job["Restarts"]) == ("COMPLETED", "1"), output_of(number, tmp_path)
    assert output_of(number, tmp_path).count("test accuracy") == 1


def test_sigterm_before_the_time_limit_saves_a_checkpoint(slurm, submit, tmp_path):
    number = submit("--epochs 100000", "--time", "70s", "--grace", "50s")
    slurm.wait_for(lambda: "stop requested: saved after epoch" in output_of(number, tmp_path), timeout=200)
    assert (tmp_path / "checkpoints" / f"digits-{number}" / "checkpoint.pt").exists()
