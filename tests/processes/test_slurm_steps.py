"""`windlass srun` and `windlass salloc` on real processes."""

from __future__ import annotations

import signal
from pathlib import Path

from terminal import daemon, start, windlass

GUIDE = (Path(__file__).parents[2] / "docs/guides/from-slurm.md").read_text(encoding="utf-8")

NUMBER = "echo task $SLURM_PROCID of $SLURM_NTASKS; exit $SLURM_PROCID"


def test_srun_labels_lines_with_the_numbers_of_tasks(state: Path):
    ran = windlass(state, "srun", "-Q", "-n", "2", "-l", "bash", "-c", "echo task $SLURM_PROCID of $SLURM_NTASKS")
    assert sorted(ran.stdout.splitlines()) == ["0: task 0 of 2", "1: task 1 of 2"]
    assert ran.returncode == 0


def test_srun_exits_with_the_highest_code_of_its_tasks(state: Path):
    assert windlass(state, "srun", "-Q", "-n", "2", "bash", "-c", "exit $((3 * SLURM_PROCID))").returncode == 3


def test_the_rows_of_the_guide(state: Path):
    with daemon(state, "--local-nodes", "2", "--local-gpus", "2"):
        for slurm, rows in (("srun", "srun -N 2 -l COMMAND"), ("salloc", "salloc -N 2 [COMMAND]")):
            assert f"| `{rows}` | `windlass {rows}` |" in GUIDE
            words = rows.replace("[", "").replace("]", "").replace("COMMAND", "printenv SLURM_NNODES").split()
            ran = windlass(state, *words)
            assert ran.returncode == 0, ran.stderr
            assert {line.rpartition(" ")[2] for line in ran.stdout.splitlines()} == {"2"}, slurm


def test_srun_of_a_look_up_runs_on_all_nodes(state: Path):
    with daemon(state, "--local-nodes", "2"):
        ran = windlass(state, "srun", "-N2", "-l", "hostname")
    assert sorted(line.partition(":")[0] for line in ran.stdout.splitlines()) == ["0", "1"]
    assert "first node" not in ran.stderr


def test_srun_prints_lines_of_tasks_as_they_are(state: Path):
    ran = windlass(state, "srun", "-Q", "echo", "$HOME  x")
    assert (ran.returncode, ran.stdout) == (0, "$HOME  x\n")


def test_srun_within_salloc_is_a_step_of_the_allocation(state: Path):
    inside = 'echo "$SLURM_JOB_ID $SLURM_NTASKS $SLURM_NNODES"; windlass srun -l bash -c "$1"; echo "code $?"'
    ran = windlass(state, "salloc", "-n", "2", "-J", "shell", "bash", "-c", inside, "-", NUMBER)
    lines = ran.stdout.splitlines()
    assert lines[0] == "1 2 1"
    assert sorted(lines[1:3]) == ["0: task 0 of 2", "1: task 1 of 2"]
    assert lines[3] == "code 1"
    assert ran.returncode == 0


def test_a_step_takes_some_nodes_of_the_allocation(state: Path):
    echo = "srun -l bash -c 'echo $SLURMD_NODENAME $SLURM_STEP_ID $SLURM_NNODES'"
    first, second, wrong, many = (echo.replace("-l", f"-l {more}") for more in ("-N1", "-w n2", "-w n9", "-N3"))
    with daemon(state, "--local-nodes", "2"):
        ran = windlass(state, "salloc", "-N", "2", "sh", "-c", f"{first}; {second}; {wrong}; {many}")
    assert ran.stdout.splitlines() == ["0: n1 0 1", "0: n2 0 1"]
    assert "node n9 is not in the allocation" in ran.stderr
    assert "More processors requested than permitted: -N 3" in ran.stderr


def test_programs_of_slurm_are_on_the_path_of_salloc(state: Path):
    steps = 'srun -l echo "step of $((1000 + SLURM_JOB_ID))"; srun --jobid "$SLURM_JOBID" true'
    inside = f'{steps}; echo "$PATH"; scontrol show hostnames'
    with daemon(state, "--local-nodes", "2"):
        ran = windlass(state, "salloc", "-N", "2", "sh", "-c", inside)
    assert ran.returncode == 0, ran.stderr
    *lines, path, first, second = ran.stdout.splitlines()
    assert (sorted(lines), first, second) == (["0: step of 1001", "1: step of 1001"], "n1", "n2")
    assert not Path(path.partition(":")[0]).exists()


def test_srun_is_cancelled_by_two_interrupts(state: Path):
    child = start(state, "srun", "-J", "waiter", "sh", "-c", "echo ready; sleep 100")
    for line in child.stdout:
        if line == "ready\n":
            child.send_signal(signal.SIGINT)
        elif line.startswith("srun: interrupt"):
            child.send_signal(signal.SIGINT)
            break
    rest = child.stdout.read()
    assert child.wait(30) == 130
    assert "cancelling waiter-1" in rest
