"""Batch scripts of jobs: their options and commands, what is lost, and errors."""

import shlex
import subprocess

import pytest

from windlass.jobs.description.job_file import loads
from windlass.jobs.errors import InputError
from windlass.jobs.slurm.component_step import ComponentCommand, component_step
from windlass.jobs.slurm.rendered_script import RenderedScript, render_script


def rendered(fields: str) -> RenderedScript:
    [submission] = loads(f"name: digits\n{fields}\n", base="/srv")
    return render_script(submission)


def options(fields: str) -> list[str]:
    lines = rendered(f"command: ./train\n{fields}").text.splitlines()
    return [line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH")]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("nodes: 2\nprocs: 4", ["--nodes=2", "--ntasks-per-node=4", "--cpus-per-task=1"]),
        ("elastic: {min: 1, max: 3}", ["--nodes=1-3"]),
        ("gpus: 4\ngpu_type: [h100]\ncpus: 32", ["--gpus-per-node=h100:4", "--cpus-per-task=8"]),
        ("mig: 3g.20gb", ["--gres=gpu:3g.20gb:1"]),
        ("time: 1h30m", ["--time=0-01:30:00"]),
        ("time: 1h\ngrace: 2m", ["--time=0-01:02:00", "--signal=TERM@120"]),
        ("preemptible: false\nrestart: {infrastructure: 0}", ["--no-requeue"]),
        ("queue: GPU_A100", ["--partition=GPU_A100"]),
        ("queue: gpu\npriority: -5\nsuspend: true", ["--partition=gpu", "--nice=5", "--hold"]),
        ("avoid: [n1, n2, n3]\nwhole_node: true", ["--exclude=n[1-3]", "--exclusive"]),
        ("affinity: ['a100, nvlink', h100]", ["--constraint='a100&nvlink|h100'"]),
        ("array: 0-9%2", ["--array=0-9%2"]),
        ("workdir: a b", ["--chdir='/srv/a b'"]),
    ],
)
def test_fields_become_options(fields, expected):
    assert [option for option in expected if option not in options(fields)] == []


def test_the_default_queue_is_the_default_partition():
    assert not any(option.startswith("--partition") for option in options("queue: default"))


def test_torchrun_gets_its_options_as_variables():
    text = rendered("nodes: 2\ngpus: 8\ncommand: torchrun train.py --lr 0.1").text
    assert text.endswith("export PET_NPROC_PER_NODE=8\nsrun --kill-on-bad-exit=1 torchrun train.py --lr 0.1\n")
    assert "#SBATCH --ntasks-per-node=1\n" in text


def test_an_agent_starts_the_ranks_of_its_node():
    text = rendered("procs: 2\nlauncher: agent\ncommand: python train.py").text
    assert "python -m windlass.agent --nproc-per-node=2 -- train.py\n" in text


def test_failures_requeue_the_job_up_to_the_limit():
    lines = rendered("restarts: 3\ncommand: ./train").text.splitlines()
    requeue = 'if [ "$code" != 0 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt 3 ]; then scontrol requeue "$SLURM_JOB_ID"; fi'
    assert lines[-3:] == ["code=$?", requeue, 'exit "$code"']


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ("after: [prepare]", "after"),
        ("image: a:1", "image"),
        ("selector: {zone: a}", "selector"),
        ("affinity: [zone=a]", "affinity"),
        ("gpu_share: 0.5", "gpu_share"),
        ("cpus: 1.5", "cpus"),
        ("priority: 5", "priority"),
        ("gpus: 1\ngpu_type: [h100, a100]", "gpu_type"),
        ("deadline: 1d", "deadline"),
        ("grace: 1m", "grace"),
        ("env: {a.b: c}", "env"),
        ("labels: {team: vision}", "labels"),
        ("restart: {fatal_exit_codes: [2]}", "restart.fatal_exit_codes"),
    ],
)
def test_fields_without_an_option_are_named(fields, field):
    assert [loss.partition(":")[0] for loss in rendered(f"command: ./train\n{fields}").losses] == [field]


ROLES = "launcher: plain\nroles: {trainer: {replicas: 2, procs: 2, command: ./train}, server: {command: ./serve}}"


def test_several_roles_are_components_of_one_job():
    lines = rendered(f"queue: long\ntime: 1h\n{ROLES}").text.splitlines()
    options = [line.removeprefix("#SBATCH ") for line in lines]
    assert [each for each in options if each.startswith(("--nodes", "hetjob"))] == ["--nodes=2", "hetjob", "--nodes=1"]
    assert options.count("--partition=long") == options.count("--time=0-01:00:00") == 2
    first, second = lines[-1].split(" : ")
    assert first.startswith(
        "srun --kill-on-bad-exit=1 --het-group=0 --cpus-per-task=1 bash -c 'export RANK=$SLURM_PROCID"
    )
    assert " LOCAL_WORLD_SIZE=2 " in first
    assert second.startswith("--het-group=1 --cpus-per-task=1 bash -c ")
    assert second.endswith("' server ./serve")


def test_variables_of_roles_stand_in_no_word_of_a_command():
    fields = "launcher: plain\nroles: {a: {command: ./a, env: {KEY: s3cr3t}}, b: {command: ./b, env: {KEY: other}}}"
    lines = rendered(fields).text.splitlines()
    assert lines[-3:-1] == ["export WINDLASS_ENV_0_KEY=s3cr3t", "export WINDLASS_ENV_1_KEY=other"]
    assert "s3cr3t" not in lines[-1]


def test_a_rank_has_the_variables_of_its_own_role_alone():
    env = {"KEY": "it's", "IFS": ",", "A_B": "x y"}
    first, second = ComponentCommand("a", ("env",), env), ComponentCommand("b", ("env",), {"KEY": "other"})
    *exports, step = component_step([first, second])
    words = shlex.split(step.partition(" : ")[0])
    script = "\n".join([*exports, shlex.join(words[words.index("bash") :])])
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, env={"PATH": "/bin"})
    found = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert {name: found[name] for name in env} == env
    assert [name for name in found if name.startswith("WINDLASS_ENV_")] == []


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (
            "launcher: torchrun\nroles: {a: {command: torchrun x.py}, b: {command: torchrun y.py}}",
            "write launcher: plain",
        ),
        (f"array: 0-3\n{ROLES}", "is no array; render a job for each index"),
        ("launcher: plain\nroles: {a: {command: ['x', ':', 'z']}, b: {command: y}}", "which srun takes as the next"),
    ],
)
def test_roles_that_are_no_heterogeneous_job_are_refused(fields, reason):
    with pytest.raises(InputError, match=reason):
        rendered(fields)


def test_values_stay_text():
    text = rendered("env: {A: '$(reboot) `x`'}\ncommand: [./train, '$(reboot)', \"it's\"]").text
    assert "export A='$(reboot) `x`'\n" in text
    assert text.endswith(" rank ./train '$(reboot)' 'it'\"'\"'s'\n")
