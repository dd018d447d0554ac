"""The command line as a job."""

import shlex
import subprocess
import sys

import pytest

from windlass.core.model.job import Condition, Dependency, Launcher
from windlass.jobs.description.options import RunOptions, flags_of, from_options, help_of
from windlass.jobs.errors import InputError


def job(*command, **options):
    return submitted(*command, **options).job


def submitted(*command, **options):
    return from_options(RunOptions(**options), command or ("python", "train.py"), cwd="/srv", user="ada")


def refused(*command, **options):
    with pytest.raises(InputError) as error:
        submitted(*command, **options)
    return str(error.value)


def test_two_nodes_of_four_gpus_are_two_replicas_with_four_ranks_each():
    (role,) = job(nodes="2", gpus=4).roles
    assert (role.name, role.replicas, role.procs, role.resources) == ("worker", 2, 4, {"gpu": 4})
    assert job(nodes="2", gpus=4).world_size == 8


def test_every_rank_gets_a_core_without_gpus():
    assert job().roles[0].resources == {"cpu": 1000}
    assert job(procs=3).roles[0].resources == {"cpu": 3000}


def test_cores_and_memory_are_those_of_each_node():
    (role,) = job(gpus=2, cpus="7.5", mem="16Gi").roles
    assert role.resources == {"cpu": 7500, "memory": 16 * 2**30, "gpu": 2}


def test_zero_cores_reserve_nothing():
    assert job(cpus="0").roles[0].resources == {}


def test_missing_options_are_filled_in():
    asked = job()
    assert (asked.name, asked.queue, asked.priority, asked.walltime) == ("train", "default", 0, None)
    assert (asked.workdir, asked.user, asked.launcher, asked.suspend) == ("/srv", "ada", Launcher.PLAIN, False)


def test_every_option_sets_its_field():
    asked = submitted(
        name="big",
        queue="research",
        priority=-3,
        time="1h30m",
        deadline="2-00:00:00",
        unreachable_grace="90s",
        ttl="0s",
        grace="500ms",
        restarts=3,
        array="0-6:2%2",
        workdir="sub",
        suspend=True,
        env=("A=1", "B=x=y", "C="),
        selector=("zone=a",),
        after=("prepare,any:warm-7_3",),
    )
    assert (asked.array, asked.array_limit) == ((0, 2, 4, 6), 2)
    big = asked.job
    assert (big.name, big.queue, big.priority, big.suspend, big.workdir) == ("big", "research", -3, True, "/srv/sub")
    assert (big.walltime, big.deadline, big.ttl, big.grace) == (5_400_000, 172_800_000, 0, 500)
    assert big.unreachable_grace == 90_000
    assert big.restart.user_limit == 3
    assert big.roles[0].env == {"A": "1", "B": "x=y", "C": ""}
    assert big.roles[0].node_selector == {"zone": "a"}
    assert big.after == (Dependency("prepare"), Dependency("warm-7_3", Condition.FINISHED))


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python train.py", "train"),
        ("python -u -m pkg.train_gpt --config c.py", "train-gpt"),
        ("torchrun --nproc-per-node 2 Train_GPT.py", "train-gpt"),
        ("python -m torch.distributed.run -m pkg.run", "run"),
        ("/usr/bin/true", "true"),
        ("bash -c 'cd x && python été.py'", "ete"),
        ("./3d.sh", "job-3d"),
        ("日本", "job"),
    ],
)
def test_a_job_is_named_after_its_script(command, name):
    assert job(*shlex.split(command)).name == name


@pytest.mark.parametrize(
    ("command", "launcher", "procs"),
    [
        ("torchrun train.py", Launcher.TORCHRUN, 4),
        ("/opt/venv/bin/torchrun --nproc_per_node=2 train.py", Launcher.TORCHRUN, 2),
        ("torchrun --nproc-per-node gpu train.py", Launcher.TORCHRUN, 4),
        ("python -m torch.distributed.run train.py", Launcher.TORCHRUN, 4),
        ("accelerate launch train.py", Launcher.TORCHRUN, 4),
        ("windlass agent train.py", Launcher.TORCHRUN, 4),
        ("python -m windlass.agent train.py", Launcher.TORCHRUN, 4),
        ("uv run torchrun train.py", Launcher.TORCHRUN, 4),
        ("python train.py torchrun --nproc-per-node 2", Launcher.PLAIN, 4),
        ("python -m pkg.train torchrun", Launcher.PLAIN, 4),
    ],
)
def test_a_command_that_starts_its_own_ranks_is_recognised(command, launcher, procs):
    asked = job(*command.split(), gpus=4)
    assert (asked.launcher, asked.roles[0].procs) == (launcher, procs)


def test_the_launcher_can_be_given():
    assert job("torchrun", "x.py", launcher="plain").launcher is Launcher.PLAIN


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time": "90"}, "--time: expects a duration with a unit: 90s, 90m or 90h"),
        ({"time": "0s"}, "--time: expects more than no time at all; leave it out (or null) for no limit"),
        ({"nodes": "0"}, "--nodes: expects a whole number from 1 to 100000, not 0"),
        (
            {"gpus": 0.5},
            "--gpus: expects a whole number from 0 to 1024, not 0.5; a part of one GPU is gpu_share (--gpu-share)",
        ),
        ({"gpus": -1}, "--gpus: expects a whole number from 0 to 1024, not -1"),
        ({"mem": "lots"}, "--mem: expects an amount of memory such as 16Gi or 512Mi, not 'lots'"),
        ({"cpus": "2k"}, "--cpus: expects a number of cores such as 2, 1.5 or 500m, not '2k'"),
        ({"array": "5-3"}, "--array: expects ranges that go up, not 5-3"),
        ({"array": "0-99999"}, "--array: expects at most 10000 indexes, not 100000"),
        ({"env": ("A",)}, "--env: expects VARIABLE=value, not 'A'"),
        ({"env": ("é=1",)}, "--env: 'é' cannot be the name of a variable"),
        ({"launcher": "torchrum"}, "--launcher: expects 'plain' or 'torchrun' or 'agent', not 'torchrum'"),
        ({"after": ("Any:x",)}, "--after: expects a job's name or id, or any:NAME if it need not succeed, not 'Any:x'"),
        ({"workdir": "a\0b"}, "--workdir: expects text without NUL characters"),
    ],
)
def test_an_unreadable_option_is_refused_with_an_example(options, message):
    assert message in refused(**options).splitlines()


def test_all_invalid_options_are_reported_at_once():
    assert len(refused(time="1", nodes="-1", mem="x").splitlines()) == 3


def test_a_job_needs_a_command():
    with pytest.raises(InputError, match="command line: the job has no command; write for example"):
        from_options(RunOptions(), (), cwd="/", user="ada")


def test_standalone_torchrun_is_refused_on_several_nodes_only():
    command = ("torchrun", "--standalone", "train.py")
    assert "leave it out" in refused(*command, nodes="2")
    assert job(*command).launcher is Launcher.TORCHRUN


def test_an_empty_program_is_refused():
    assert refused("", "x") == "command line: the command's first word is empty; write for example python train.py"


def test_words_that_are_not_unicode_are_refused():
    assert "not valid UTF-8" in refused("python", "caf\udce9.py")


def test_unicode_and_spaces_are_accepted():
    assert job("python", "mein Modell/schön.py").roles[0].command == ("python", "mein Modell/schön.py")


def test_help_and_flags_come_from_the_table():
    assert flags_of("nodes") == ("-N", "--nodes")
    assert help_of("priority") == "Higher goes first. Default: 0."


def test_a_job_from_the_command_line_loads_neither_yaml_nor_numpy():
    module = "windlass.jobs.description.options"
    script = f"import sys, {module}; print([m for m in ('yaml', 'numpy', 'msgspec') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
