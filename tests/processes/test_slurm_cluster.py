"""Rendered batch scripts on a Slurm that answers to `sinfo`; skipped where none does. Nothing is installed."""

import shutil
import subprocess
import sys

import pytest

from windlass.cli.entry import main

PROGRAM = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("stopped", flush=True), sys.exit(3)))
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "WINDLASS_GENERATION", "JOB_COMPLETION_INDEX")
print(*(os.environ.get(name) for name in names), *sys.argv[2:], flush=True)
time.sleep(float(sys.argv[1]))
"""


def _answers() -> bool:
    if not shutil.which("sinfo"):
        return False
    return subprocess.run(["sinfo"], capture_output=True, check=False, timeout=20).returncode == 0


pytestmark = [
    pytest.mark.skipif(not _answers(), reason="no Slurm answers to sinfo; name its slurm.conf in SLURM_CONF"),
    pytest.mark.timeout(240),
]


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    """Renders a job file, waits for the batch job, and returns the lines of its output."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text(PROGRAM)

    def run(fields: str, arguments: str = "0") -> list[str]:
        command = f"command: {sys.executable} program.py {arguments}\n"
        (tmp_path / "job.yaml").write_text(f"name: digits\nlauncher: plain\n{fields}\n{command}")
        assert main(["render", "--for", "slurm", "job.yaml"]) == 0
        (tmp_path / "job.sbatch").write_text(capsys.readouterr().out)
        subprocess.run(
            ["sbatch", "--wait", "--output=out", "job.sbatch"], check=False, capture_output=True, timeout=200
        )
        lines = (tmp_path / "out").read_text().splitlines()
        return sorted(line for line in lines if not line.startswith(("srun:", "slurmstepd")))

    return run


def test_ranks_of_two_nodes(run):
    expected = [f"{rank} {rank % 2} 4 1 None a b" for rank in range(4)]
    assert run("nodes: 2\nprocs: 2\ncpus: 2\nmem: 100Mi\ntime: 2m", "0 'a b'") == expected


def test_members_of_an_array(run):
    assert run("array: 3,5\ncpus: 1\nmem: 100Mi") == ["0 0 1 1 3", "0 0 1 1 5"]


def test_sigterm_comes_before_the_end(run):
    lines = run("time: 10s\ngrace: 50s\ncpus: 1\nmem: 100Mi", "300")
    assert lines == ["0 0 1 1 None", "stopped"]
