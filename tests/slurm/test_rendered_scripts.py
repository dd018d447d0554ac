"""Rendered batch scripts on a real Slurm: variables of ranks, arrays, and SIGTERM before the time limit."""

import sys

import pytest

from windlass.cli.entry import main

pytestmark = pytest.mark.timeout(300)
PROGRAM = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("stopped", flush=True), sys.exit(3)))
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "WINDLASS_GENERATION", "WINDLASS_JOB_ID", "JOB_COMPLETION_INDEX", "COLOUR")
print(*(os.environ[name] for name in names if name in os.environ), *sys.argv[2:], flush=True)
time.sleep(float(sys.argv[1]))
"""


@pytest.fixture
def run(slurm, tmp_path, capsys, monkeypatch):
    """Renders a job file, waits for the batch job, and returns the lines of its output."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text(PROGRAM)

    def run(fields: str, arguments: str = "0", command: str | None = None) -> list[str]:
        command = f"command: {sys.executable} program.py {arguments}\n" if command is None else command
        (tmp_path / "job.yaml").write_text(f"name: digits\nlauncher: plain\n{fields}\n{command}")
        assert main(["render", "--for", "slurm", "job.yaml"]) == 0
        (tmp_path / "job.sbatch").write_text(capsys.readouterr().out)
        number = slurm.call("sbatch", "--parsable", "--output=out", "job.sbatch", cwd=tmp_path).strip()
        slurm.wait_for(lambda: not slurm.call("squeue", "--noheader", "-j", number), timeout=200)
        lines = (tmp_path / "out").read_text().splitlines()
        lines = [line.replace(f"digits-{number}", "digits-ID") for line in lines]
        return sorted(line for line in lines if not line.startswith(("srun:", "slurmstepd")))

    return run


def test_ranks_of_two_nodes(run):
    expected = [f"{rank} {rank % 2} 4 1 digits-ID a b" for rank in range(4)]
    assert run("nodes: 2\nprocs: 2\ncpus: 2\nmem: 100Mi\ntime: 2m", "0 'a b'") == expected


def test_roles_are_components_of_a_heterogeneous_job(run):
    program = f"{sys.executable} program.py 0"
    first = f"{{procs: 2, cpus: 2, mem: 100Mi, command: {program} a, env: {{COLOUR: red}}}}"
    roles = f"roles: {{a: {first}, b: {{cpus: 1, mem: 100Mi, command: {program} b}}}}"
    assert run(roles, command="") == [
        "0 0 3 1 digits-ID red a",
        "1 1 3 1 digits-ID red a",
        "2 0 3 1 digits-ID b",
    ]


def test_members_of_an_array(run):
    assert run("array: 3,5\ncpus: 1\nmem: 100Mi") == ["0 0 1 1 digits-ID_3 3", "0 0 1 1 digits-ID_5 5"]


def test_sigterm_comes_before_the_end(run):
    lines = run("time: 10s\ngrace: 50s\ncpus: 1\nmem: 100Mi", "300")
    assert lines == ["0 0 1 1 digits-ID", "stopped"]
