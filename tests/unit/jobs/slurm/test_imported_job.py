"""Batch scripts and the job files made of them: golden files, and the errors of scripts that sbatch refuses."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from windlass.jobs.description.job_file import loads
from windlass.jobs.errors import InputError
from windlass.jobs.imports.imported_job import ImportedJob, with_queue
from windlass.jobs.imports.job_text import job_text
from windlass.jobs.slurm.imported_job import MAX_SCRIPT, import_script
from windlass.jobs.syntax.text import Text, read_text

FOLDER = Path(__file__).parent / "scripts"
SCRIPTS = sorted(FOLDER.glob("*.sbatch"))


def imported(*options: str, body: str = "srun python train.py $1") -> ImportedJob:
    lines = [f"#SBATCH {option}" for option in options] or ["#SBATCH --quiet"]
    return import_script(Text("job.sbatch", "\n".join(["#!/bin/bash", *lines, body, ""])))


def losses(*options: str, body: str = "python train.py") -> list[str]:
    return [str(loss) for loss in imported(*options, body=body).losses]


def without_environment(fields: Any) -> Any:
    """The fields with a short word in the place of the code that sets variables of Slurm."""
    if isinstance(fields, dict):
        return {name: without_environment(value) for name, value in fields.items()}
    if isinstance(fields, list):
        return ["ENVIRONMENT" if "windlass_slurm_script" in str(word) else word for word in fields]
    return fields


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_job_files_of_scripts(script, request):
    job = import_script(replace(read_text(str(script)), source=script.name))
    text = job_text(replace(job, fields=without_environment(job.fields)), script.name)
    golden = script.with_suffix(".yaml")
    if request.config.getoption("--rewrite"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8"), "run this test with --rewrite"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_job_files_are_valid_and_hold_the_script_unchanged(script):
    job = import_script(read_text(str(script)))
    [submission] = loads(job_text(job, script.name))
    roles = job.fields.get("roles") or {"worker": job.fields}
    assert [list(role.command) for role in submission.job.roles] == [role["command"] for role in roles.values()]
    if "windlass_slurm_script" in str(roles):
        assert submission.job.roles[0].command[-1] == script.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--nodes=2 --ntasks=8", {"nodes": 2, "procs": 4, "cpus": 4}),
        ("--nodes=1-4", {"elastic": {"min": 1, "max": 4}}),
        ("--ntasks=8", {"procs": 8, "cpus": 8}),
        ("--ntasks=8 --ntasks-per-node=4", {"nodes": 2, "procs": 4}),
        ("--nodes=2 --gpus=8 --ntasks-per-node=4", {"gpus": 4}),
        ("--gpus-per-task=1 --ntasks=4 --cpus-per-gpu=6", {"gpus": 4, "cpus": 24}),
        ("--gres=gpu:a100:2 --mem-per-gpu=40G --ntasks-per-node=2", {"gpus": 2, "gpu_type": ["a100"], "mem": "80Gi"}),
        ("--gpus=1 --mem=2000", {"mem": "2000Mi"}),
        ("--gres=gpu:3g.20gb:1", {"mig": "3g.20gb"}),
        ("--time=90", {"time": "1h30m"}),
        ("--time=1-12 --signal=TERM@600", {"time": "1d11h50m", "grace": "10m"}),
        ("--time=UNLIMITED", {}),
        ("--chdir=/srv/x --hold", {"workdir": "/srv/x", "suspend": True}),
        ("--constraint=v100|a100", {"affinity": ["v100", "a100"]}),
        ("--array=1-3,7%2", {"array": "1-3,7%2"}),
        ("--dependency=afterok:prep:prep-2,afterany:warm", {"after": ["prep", "prep-2", "any:warm"]}),
        ("--dependency=afternotok:a,after:b,aftercorr:c", {"after": ["failed:a", "started:b", "matching:c"]}),
        ("--dependency=singleton,afterok:a --job-name=x", {"after": ["a", "earlier:x"]}),
        ("--dependency=singleton --array=0-3 --job-name=x", {"after": ["earlier:x"], "array": "0-3%1"}),
        ("--priority=10", {"priority": 10}),
        ("--exclude=n[1-3],x", {"avoid": ["n1", "n2", "n3", "x"]}),
    ],
)
def test_options_become_fields(options, expected):
    fields = imported(options).fields
    assert {name: fields.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("options", "loss"),
    [
        ("--nodes=3 --ntasks=8", "line 2: --ntasks: each node has 3 tasks: 9 and not 8"),
        ("--gres=lscratch:10", "line 2: --gres=lscratch:10: only GPUs are resources of a job"),
        ("--dependency=expand:7", "line 2: --dependency=expand:7: a job waits for the start or the end of others only"),
        (
            "--dependency=afterok:a?afterok:b",
            "line 2: --dependency: a job waits for all of its dependencies, and not for any of them",
        ),
        ("--dependency=after:a+5", "line 2: --dependency: a job waits for no time after the start of another"),
        ("--dependency=afterok:123", "line 2: afterok:123: this is no job here; write its name: after: [NAME]"),
        ("--nodelist=n1", "line 2: --nodelist: nodes are not chosen by name; write selector or affinity"),
        ("--export=NONE", "line 2: --export: the variables of the submitting shell are passed as well"),
        ("--signal=TERM@60", "line 2: --signal: without a time limit no signal is sent"),
        ("--no-such-thing", "line 2: --no-such-thing: it is no option of sbatch itself"),
        ("--cpu-freq=high", "line 2: --cpu-freq: a job has no such setting"),
    ],
)
def test_losses_name_line_and_option(options, loss):
    assert loss in losses(options)


@pytest.mark.parametrize(
    "option", ["--requeue", "--open-mode=append", "--wait-all-nodes=1", "--get-user-env", "--parsable", "--gres=none"]
)
def test_options_without_loss(option):
    assert losses(option, "--time=10") == []


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ("srun hostname\nmpirun ./a", "mpirun"),
        ("ssh $(hostname) ls", "ssh"),
        ("echo $SLURM_JOB_COMMENT", "$SLURM_JOB_COMMENT"),
        ("scontrol requeue $SLURM_JOB_ID", "scontrol"),
        ("srun --multi-prog a.conf", "srun --multi-prog"),
        ("srun -n1 prepare\nsrun train", "srun of one task"),
    ],
)
def test_commands_that_differ_are_named(body, part):
    assert part in [loss.part for loss in imported("--nodes=2", body=body).losses]


def test_commands_outside_of_steps_run_in_each_task():
    lost = losses("--nodes=2", body="wget https://example.org/x\nexport A=1\ntar xf x\nsrun python train.py")
    assert "line 3: wget: each task runs this command, and not one for all (lines 3, 5)" in lost


@pytest.mark.parametrize(
    ("options", "body", "launcher", "procs"),
    [
        ("--nodes=2 --gpus-per-node=4", "srun torchrun --nproc_per_node=$SLURM_GPUS_ON_NODE a.py", "torchrun", None),
        ("--nodes=2 --ntasks-per-node=4 --gpus-per-node=4", "srun python train.py", "plain", None),
        ("--nodes=2 --ntasks-per-node=2 --gpus-per-node=4", "srun python train.py", "plain", 2),
        ("--nodes=2 --gpus-per-node=4", "srun python train.py $X", "torchrun", 1),
        ("-N2 --ntasks-per-node=8", "srun --ntasks-per-node=1 bash -c 'torchrun --nproc-per-node=8 a'", "torchrun", 8),
        ("--ntasks=8", "module load x\nmake -j8", "plain", None),
    ],
)  # fmt: skip
def test_launcher_of_a_body(options, body, launcher, procs):
    fields = imported(options, body=body).fields
    assert (fields["launcher"], fields.get("procs")) == (launcher, procs)


def runs_on_the_first_node_only(body: str) -> bool:
    return any("it runs on the first node only" in loss for loss in losses("--nodes=2", body=body))


@pytest.mark.parametrize(
    "body",
    ["srun hostname", "srun -l date\nsrun nvidia-smi", "x=$((1+2)); srun env", "srun nvidia-smi\nsrun train"],
)
def test_a_step_that_prints_facts_runs_on_all_nodes(body):
    assert not runs_on_the_first_node_only(body)


@pytest.mark.parametrize(
    "body",
    [
        'nodes=($(srun hostname))\nmake "$nodes"',
        "f() { ip=`srun -N2 hostname -i`; }\nmake $ip",
        "srun hostname\npython train.py",
    ],
)
def test_a_step_whose_output_is_read_or_a_diagnosis_before_other_commands_starts_no_other_node(body):
    assert runs_on_the_first_node_only(body)


def test_a_diagnosis_before_the_program_does_not_decide_the_number_of_tasks():
    body = "srun --ntasks-per-node=1 nvidia-smi\nsrun ./train"
    assert imported("--nodes=2 --ntasks-per-node=4", body=body).fields["procs"] == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("echo 1\n", "job.sbatch:1:1: this is no batch script"),
        ("#!/bin/sh\n#SBATCH -n 1\n", "the script has no command after its options"),
        ("#!/bin/sh\n#SBATCH --time=soon\nx\n", "job.sbatch:2:9: --time expects minutes"),
        ("#!/bin/sh\n#SBATCH --nodes=0\nx\n", "--nodes expects a whole number of at least 1, not '0'"),
        ("#!/bin/sh\n#SBATCH --nodes=$N\nx\n", "--nodes expects a whole number of at least 1, not '$N'"),
        ("#!/bin/sh\n#SBATCH --gres=gpu:a:b:c\nx\n", "--gres expects a number of GPUs"),
        ("#!/bin/sh\n#SBATCH --array=5-1\nx\n", "--array expects ranges that go up"),
        ("#!/bin/sh\n#SBATCH --signal=@\nx\n", "--signal expects SIGNAL@SECONDS"),
        ("#!/bin/sh\n#SBATCH -n 1\n" + "x" * MAX_SCRIPT, "the script is larger than 100 KiB"),
    ],
)
def test_scripts_that_are_refused(text, message):
    with pytest.raises(InputError) as error:
        import_script(Text("job.sbatch", text))
    assert message in str(error.value)
    assert len(error.value.problems) == 1


def test_another_queue_than_the_partition():
    job = with_queue(imported("--partition=a,b"), "research")
    assert job.fields["queue"] == "research"
    assert job.losses == ()


def test_a_hostile_script_stays_text():
    job = imported("--job-name=$(reboot)", "--comment='\x1b[2J'", body="echo '\x1b]0;x\x07' $SLURM_JOB_NAME")
    [submission] = loads(job_text(job, "a\nb.sbatch"))
    assert submission.job.name == "reboot"
    assert "SLURM_JOB_NAME='$(reboot)'" in submission.job.roles[0].command[2]
