"""The commands of docs/guides/slurm-backend.md on a real Slurm, as they are written there."""

import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from windlass.cli.entry import main

pytestmark = pytest.mark.timeout(400)
ROOT = Path(__file__).parents[2]
BLOCK = re.search(r"```console\n\$ (.*)\n((?:.*\n)*?)```", (ROOT / "docs/guides/slurm-backend.md").read_text())


def shape(text):
    """Lines in a fixed order, without times, numbers of jobs and folders; a job may start before it is seen to wait."""
    for pattern, name in ((r"hello-\d+", "hello-N"), (r"\b\d+(\.\d+)? m?s\b", "T s"), (r"/\S*/slurm-\d+", "/slurm-N")):
        text = re.sub(pattern, name, text)
    return sorted(line for line in text.splitlines() if " waits " not in line)


def test_the_first_run_prints_what_the_guide_shows(slurm, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    command, shown = BLOCK.groups()
    assert main(shlex.split(command)[1:]) == 0
    captured = capsys.readouterr()
    assert shape(captured.out + captured.err) == shape(shown)


def test_the_digits_train_by_run(slurm, tmp_path, monkeypatch, capsys):
    example = ROOT / "examples" / "digits"
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    shutil.copy(example / "train.py", tmp_path)
    job = (example / "job.yaml").read_text().replace("train.py", "train.py --epochs 2")
    (tmp_path / "job.yaml").write_text(job)
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--on", "slurm", "-G", "2", "job.yaml"]) == 0
    assert "4 ranks, gloo" in capsys.readouterr().out
