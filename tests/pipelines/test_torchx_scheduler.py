"""TorchX itself submits to the daemon, follows, lists and cancels jobs by the scheduler `windlass`."""

from __future__ import annotations

import re
from pathlib import Path

import windlass

ROOT = Path(__file__).parents[2]


def test_a_dry_run_prints_the_job_and_submits_nothing(run, state):
    words = ["-s", "windlass", "-cfg", "queue=default,priority=3", "utils.sh", "--memMB", "64", "echo", "hello"]
    printed = run("torchx", "run", "--dryrun", *words).stdout
    assert "=== SCHEDULER REQUEST ===" in printed
    assert "queue: default\npriority: 3\n" in printed
    assert "command:\n" in printed
    with windlass.Client("local", state=state) as client:
        assert client.list(ended=True) == []


def test_the_rendezvous_of_dist_ddp_is_left_to_windlass(run):
    ddp = ["dist.ddp", "-j", "2x4", "--gpu", "4", "--script", "train.py", "--", "--name", "a b"]
    printed = run("torchx", "run", "--dryrun", "-s", "windlass", *ddp).stdout
    assert "exec torchrun --nproc_per_node 4 --tee 3 --role '' train.py --name 'a b'" in " ".join(printed.split())
    assert "--rdzv_endpoint" not in printed.partition("SCHEDULER REQUEST")[2]


def test_the_digits_are_trained_by_dist_ddp(run, state, tmp_path):
    (tmp_path / "train.py").symlink_to(ROOT / "examples/digits/train.py")
    ddp = ["dist.ddp", "-j", "2x1", "--cpu", "1", "--memMB", "64", "--script", "train.py", "--", "--epochs", "2"]
    ran = run("torchx", "run", "-s", "windlass", "--wait", "--log", *ddp)
    handle = re.search(r"windlass://torchx/(train-\d+)", ran.stdout)
    assert handle
    assert "train/0 [0]:epoch 2/2" in re.sub(r"\x1b\[\d*m", "", ran.stdout + ran.stderr)
    with windlass.Client("local", state=state) as client:
        job = client.get(handle[1])
    assert (job.phase, job.replicas, job.ranks) == ("Succeeded", 2, 2)
    assert "SUCCEEDED" in run("torchx", "status", handle[0]).stdout
    described = run("torchx", "describe", handle[0]).stdout
    assert "'num_replicas': 2" in described
    assert handle[1] in run("torchx", "list", "-s", "windlass").stdout


def test_a_refused_app_is_one_message_with_the_option_to_lower(run):
    ddp = ["dist.ddp", "-j", "2x1", "--cpu", "9", "--memMB", "64", "--script", "train.py"]
    ran = run("torchx", "run", "-s", "windlass", *ddp, check=False)
    assert ran.returncode == 1
    assert "can never run here" in ran.stderr
    assert "lower --cpu, such as --cpu 1" in ran.stderr
    assert "Traceback" not in ran.stderr
    queue = run(
        "torchx", "run", "-s", "windlass", "-cfg", "queue=nope", "utils.sh", "--memMB", "64", "true", check=False
    )
    assert "there is no queue nope" in queue.stderr
    assert "lower --cpu" not in queue.stderr
    assert "Traceback" not in queue.stderr


def test_the_image_that_torchx_sets_is_no_warning(run):
    words = ["-s", "windlass", "utils.sh", "--cpu", "1", "--memMB", "64", "true"]
    assert "WindlassWarning" not in run("torchx", "run", *words).stderr


def test_a_job_is_cancelled_and_an_unknown_one_is_not_found(run, state):
    words = ["-s", "windlass", "utils.sh", "--cpu", "1", "--memMB", "64", "sleep", "100"]
    handle = run("torchx", "run", *words).stdout.strip().splitlines()[-1]
    run("torchx", "cancel", handle)
    with windlass.Client("local", state=state) as client:
        assert client.wait(handle.rpartition("/")[2], 30).reason == "Cancelled"
    assert "CANCELLED" in run("torchx", "status", handle).stdout
    missing = run("torchx", "status", "windlass://torchx/none-9", check=False)
    assert "does not exist" in missing.stdout + missing.stderr


def test_output_is_selected_by_role_replica_and_pattern(run):
    words = ["-s", "windlass", "utils.sh", "--num_replicas", "2", "--cpu", "1", "--memMB", "64"]
    script = "echo replica $WINDLASS_REPLICA; echo other"
    handle = run("torchx", "run", *words, "sh", "-c", script, check=True).stdout.strip().splitlines()[-1]
    printed = run("torchx", "log", "--tail", "--regex", "replica", f"{handle}/sh/1").stdout
    assert re.sub(r"\x1b\[\d*m", "", printed).strip() == "sh/1 replica 1"


def test_a_daemon_that_does_not_run_is_one_message(run, tmp_path):
    words = ["run", "-s", "windlass", "utils.sh", "--memMB", "64", "true"]
    ran = run("torchx", *words, check=False, WINDLASS_STATE=str(tmp_path / "none"))
    assert ran.returncode != 0
    assert "start one with: windlass up -d" in ran.stderr


def test_the_built_in_schedulers_stay(run):
    for name in ("windlass", "local_cwd", "slurm", "kubernetes"):
        assert f"{name}:" in run("torchx", "runopts", name).stdout
