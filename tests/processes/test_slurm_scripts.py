"""Batch scripts of Slurm in bash, with the variables of one rank as Windlass sets them."""

import os
import subprocess

import pytest

from windlass.jobs.slurm.imported_job import import_script
from windlass.jobs.syntax.text import Text

RANK_3_OF_4 = {
    "RANK": "3",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "4",
    "LOCAL_WORLD_SIZE": "2",
    "PET_NODE_RANK": "1",
    "PET_NNODES": "2",
    "MASTER_ADDR": "10.0.0.1",
    "WINDLASS_JOB_ID": "digits-12",
    "WINDLASS_NODE": "n2",
    "WINDLASS_GENERATION": "2",
}


def output(body: str, options: str = "--nodes=2 --ntasks-per-node=2", **variables: str) -> str:
    """The output of a script as one rank."""
    script = f"#!/bin/bash\n#SBATCH {options}\n{body}\n"
    command = import_script(Text("digits.sbatch", script)).fields["command"]
    environment = {"PATH": os.environ["PATH"], **RANK_3_OF_4, **variables}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=30)
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SLURM_PROCID", "3"),
        ("SLURM_LOCALID", "1"),
        ("SLURM_NODEID", "1"),
        ("SLURM_NTASKS", "4"),
        ("SLURM_NNODES", "2"),
        ("SLURM_NTASKS_PER_NODE", "2"),
        ("SLURM_TASKS_PER_NODE", "2(x2)"),
        ("SLURM_JOB_ID", "12"),
        ("SLURM_JOB_NAME", "digits"),
        ("SLURM_JOB_NODELIST", "10.0.0.1,node-1"),
        ("SLURMD_NODENAME", "n2"),
        ("SLURM_RESTART_COUNT", "1"),
    ],
)
def test_variables_of_a_rank(name, value):
    assert output(f"srun bash -c 'echo ${name}'") == value


def test_variables_of_an_array_member():
    echo = "echo $SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID $SLURM_JOB_ID $SLURM_ARRAY_TASK_MAX"
    member = {"WINDLASS_JOB_ID": "digits-12_7", "JOB_COMPLETION_INDEX": "7"}
    assert output(echo, "--array=1-9", **member) == "12 7 12000007 9"


def test_the_first_node_is_the_address_of_rank_0():
    idiom = (
        'nodes=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))\n'
        'ip=$(srun --nodes=1 --ntasks=1 -w "${nodes[0]}" hostname --ip-address)\n'
        'srun -l --mpi pmix echo "$ip ${#nodes[@]} $(scontrol show hostname $SLURM_NODELIST | head -n1)"'
    )
    assert output(idiom) == "10.0.0.1 2 10.0.0.1"


def test_steps_run_on_their_nodes_and_tasks_only():
    steps = "srun -n1 echo first\nsrun -w node-1 -N1 -n2 echo second\nsrun -n4 echo all\nsrun --ntasks 2 echo two"
    assert output(steps) == "second\nall"
    assert output(steps, RANK="0", PET_NODE_RANK="0") == "first\nall\ntwo"


def test_components_of_a_heterogeneous_job():
    options = "#SBATCH --nodes=1\n#SBATCH hetjob\n#SBATCH --nodes=1"
    steps = "srun --het-group=0 echo left : --het-group=1 echo right\nsrun -l echo a : -l echo b"
    script = f"#!/bin/bash\n{options}\n{steps}\n"
    roles = import_script(Text("het.sbatch", script)).fields["roles"]
    shown = [
        subprocess.run(role["command"], env=dict(os.environ), capture_output=True, text=True, check=True).stdout
        for role in roles.values()
    ]
    assert shown == ["left\na\n", "right\nb\n"]


def test_the_exit_code_is_that_of_the_script():
    with pytest.raises(subprocess.CalledProcessError) as error:
        output("set -euo pipefail\nsrun bash -c 'exit 7'\necho unreachable")
    assert error.value.returncode == 7


def test_child_scripts_have_srun_too(tmp_path):
    child = tmp_path / "child.sh"
    child.write_text('srun echo "child of task $SLURM_PROCID"\nmodule load cuda\n')
    assert output(f"srun bash {child}") == "child of task 3"


def test_a_script_without_steps_runs_on_the_first_node_only():
    assert output("make $X") == ""
    assert output("echo $SLURM_NODEID", PET_NODE_RANK="0") == "0"


def test_python_scripts_have_the_variables():
    script = "#!/usr/bin/env python3\n#SBATCH --nodes=1\nimport os\nprint(os.environ['SLURM_NTASKS'])\n"
    command = import_script(Text("a.sbatch", script)).fields["command"]
    done = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"


def test_arguments_of_a_script():
    script = '#!/bin/bash\n#SBATCH --nodes=1\necho "$# $1 $2"\n'
    command = import_script(Text("a.sbatch", script), ["a b", "c"]).fields["command"]
    done = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True, check=True)
    assert done.stdout == "2 a b c\n"
