"""Tasks of SkyPilot as jobs: fields, the command with its variables, pipelines, and files that are refused."""

import os
import subprocess

import pytest

from windlass.jobs.description.job_file import loads
from windlass.jobs.errors import InputError
from windlass.jobs.imported_file import import_file
from windlass.jobs.imports.imported_job import ImportedJob
from windlass.jobs.skypilot.resources import KNOWN as RESOURCE_FIELDS
from windlass.jobs.skypilot.task_fields import KNOWN as TASK_FIELDS
from windlass.jobs.skypilot.task_file import MAX_SCRIPT
from windlass.jobs.syntax.text import Text


def jobs(text: str) -> tuple[ImportedJob, ...]:
    file = import_file(Text("my_task.yaml", text))
    loads(file.text("my_task.yaml"))
    return file.jobs


def of_resources(written: str) -> ImportedJob:
    [job] = jobs(f"run: python train.py\nresources: {{{written}}}\n")
    return job


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("accelerators: 'H100:8'", {"gpus": 8, "gpu_type": ["H100"]}),
        ("accelerators: V100", {"gpus": 1, "gpu_type": ["V100"]}),
        ("accelerators: {A100: 4}", {"gpus": 4, "gpu_type": ["A100"]}),
        ("accelerators: {L4:1, A10G:1}", {"gpus": 1, "gpu_type": ["L4", "A10G"]}),
        ("accelerators: ['H200:8', 'H100:8']", {"gpus": 8, "gpu_type": ["H200", "H100"]}),
        ("accelerators: 'L4:0.5'", {"gpu_share": "500m", "gpu_type": ["L4"]}),
        ("any_of: [{accelerators: 'T4:2'}, {accelerators: 'V100:2'}]", {"gpus": 2, "gpu_type": ["T4", "V100"]}),
        ("cpus: 4+, memory: 32+", {"cpus": "4", "mem": "32768Mi"}),
        ("memory: 512MB", {"mem": "512Mi"}),
        ("memory: 0.5", {"mem": "512Mi"}),
        ("image_id: docker:pytorch/pytorch:2.8", {"image": "pytorch/pytorch:2.8"}),
        ("labels: {team: vision}, priority: -5", {"labels": {"team": "vision"}, "priority": -5}),
        ("network_tier: best", {"network": "auto"}),
        ("job_recovery: {max_restarts_on_errors: 3}", {"restart": {"user": 3}}),
        ("job_recovery: {recover_on_exit_codes: 33}", {"restart": {"retryable_exit_codes": [33]}}),
        ("use_spot: false", {}),
    ],
)
def test_resources_become_fields(written, expected):
    job = of_resources(written)
    assert {
        name: value for name, value in job.fields.items() if name not in ("name", "launcher", "command")
    } == expected


@pytest.mark.parametrize(
    ("written", "part"),
    [
        ("infra: aws/us-east-1", "resources.infra"),
        ("image_id: ami-0868a20f5a3bf9702", "resources.image_id"),
        ("accelerators: {A100:8, H100:4}", "resources.accelerators"),
        ("accelerators: tpu-v5p-8", "resources.accelerators"),
        ("use_spot: true", "resources.use_spot"),
        ("memory: 4x", "resources.memory"),
        ("labels: {a: ä}", "resources.labels.a"),
        ("instance_type: p4d.24xlarge", "resources.instance_type"),
    ],
)
def test_a_part_without_equivalent_is_named_with_its_line(written, part):
    losses = of_resources(written).losses
    assert [(loss.part, loss.place.line) for loss in losses] == [(part, 2)]


def test_every_field_of_the_schema_of_skypilot_is_known():
    task = """
        _metadata api_server_access config envs event_callback file_mounts file_mounts_mapping inputs managed_secrets
        name num_nodes outputs pool resources run secrets service setup volume_mounts volumes workdir
    """
    resources = """
        _cluster_config_overrides _docker_login_config _is_image_managed _no_missing_accel_warnings _requires_fuse
        accelerator_args accelerators any_of autostop cloud cpus disk_size disk_tier ephemeral_storage image_id infra
        instance_type job_recovery labels local_disk max_hourly_cost memory network_tier ordered ports priority
        priority_class region use_spot volumes zone
    """
    assert set(task.split()) <= TASK_FIELDS
    assert set(resources.split()) <= RESOURCE_FIELDS


def test_secrets_and_variables_without_a_value_stay_out_of_the_file():
    file = import_file(Text("t.yaml", "run: 'true'\nenvs: {A: 1, B: }\nsecrets: {KEY: hunter2}\n"))
    [job] = file.jobs
    assert job.fields["env"] == {"A": "1"}
    assert [loss.part for loss in job.losses] == ["envs.B", "secrets.KEY"]
    assert "hunter2" not in file.text("t.yaml")


def test_the_configuration_of_pods_becomes_the_pod():
    [job] = jobs(
        "run: 'true'\nconfig: {kubernetes: {pod_config: {spec: {containers: [{tty: true}]}}, provision_timeout: 9}}\n"
    )
    assert job.fields["pod"] == {"spec": {"containers": [{"tty": True, "name": "main"}]}}
    assert [loss.part for loss in job.losses] == ["config.kubernetes.provision_timeout"]


def test_a_dynamic_set_of_nodes_is_elastic():
    [job] = jobs("num_nodes: 8\nrun: 'true'\nresources: {job_recovery: {strategy: DYNAMIC_NODE_SET, min_nodes: 2}}\n")
    assert job.fields["elastic"] == {"min": 2, "max": 8}


def test_tasks_of_a_pipeline_run_one_after_another():
    first, second, third = jobs("name: line\n---\nname: a\nrun: 'true'\n---\nname: b\nrun: 'true'\n---\nrun: 'true'\n")
    assert [job.fields["name"] for job in (first, second, third)] == ["a", "b", "my-task-3"]
    assert ["after" in first.fields, second.fields["after"], third.fields["after"]] == [False, ["a"], ["b"]]


def test_jobs_of_a_group_do_not_wait_and_the_difference_is_named():
    header = "name: group\nexecution: parallel\nprimary_tasks: [a]\n"
    first, second = jobs(f"{header}---\nname: a\nrun: 'true'\n---\nname: b\nrun: 'true'\n")
    assert "after" not in second.fields
    assert [loss.part for loss in first.losses] == ["execution", "name", "primary_tasks"]


def test_setup_and_run_have_the_variables_of_skypilot(tmp_path):
    task = """\
num_nodes: 2
resources: {accelerators: "L4:4"}
setup: echo setup $SKYPILOT_SETUP_NODE_RANK
run: |
  echo "$SKYPILOT_NODE_IPS" | head -n1
  echo $SKYPILOT_NODE_RANK of $SKYPILOT_NUM_NODES with $SKYPILOT_NUM_GPUS_PER_NODE: $SKYPILOT_TASK_ID
"""
    [job] = jobs(task)
    of_rank = {"PET_NNODES": "2", "PET_NODE_RANK": "1", "MASTER_ADDR": "10.0.0.7", "WINDLASS_JOB_ID": "my-task-3"}
    ran = subprocess.run(
        job.fields["command"], env={**os.environ, **of_rank}, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "setup 1\n10.0.0.7\n1 of 2 with 4: my-task-3\n"


def test_a_setup_that_fails_ends_the_node():
    [job] = jobs("setup: exit 7\nrun: echo started\n")
    ran = subprocess.run(job.fields["command"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (7, "")


@pytest.mark.parametrize(
    ("run", "part"),
    [
        ("for ip in $SKYPILOT_NODE_IPS; do ssh $ip true; done", "$SKYPILOT_NODE_IPS"),
        ("mpirun -H a,b ./train", "mpirun"),
        ("echo $SKYPILOT_SERVE_REPLICA_ID", "$SKYPILOT_SERVE_REPLICA_ID"),
        ("conda activate x", "conda activate"),
    ],
)
def test_commands_that_work_otherwise_are_named(run, part):
    [job] = jobs(f"num_nodes: 2\nrun: |\n  # comment\n  {run}\n")
    assert (part, 4) in [(loss.part, loss.place.line) for loss in job.losses]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("run: x\nnum_node: 2\n", "task.yaml:2:1: unknown field num_node; did you mean 'num_nodes'?"),
        (
            "run: x\nresources: {acelerators: V100}\n",
            "unknown field resources.acelerators; did you mean 'accelerators'?",
        ),
        ("run: x\nresources: {accelerators: 'H100:many'}\n", "expects a model with a number, such as H100:8"),
        ("run: x\nresources: {accelerators: 'H100:1.5'}\n", "expects whole GPUs, or a part of a single one"),
        ("run: x\nresources: {cpus: lots}\n", "resources.cpus expects a number of cores"),
        ("run: x\nresources: {memory: -3}\n", "resources.memory expects memory, such as 64 or 64GB+"),
        ("run: x\nresources: [a]\n", "resources expects a mapping of fields"),
        ("run: x\nnum_nodes: many\n", "num_nodes expects a whole number from 1 to 100000"),
        ("run: x\nenvs: {'A=B': 1}\n", "cannot be the name of a variable"),
        ("run: x\nconfig: {kubernetes: {pod_config: {spec: [a]}}}\n", "expects a part of a pod"),
        ("run: x\nconfig: {kubernetes: {pod_config: {spec: {containers: [a]}}}}\n", "expects a container as a mapping"),
        ("resources: {cpus: 2}\n", "the task has no run, so it starts nothing; write one"),
        ("name: a\nrun: x\n---\nname: a\nrun: x\n", "name is a twice; give each task of a pipeline its own name"),
        (f"run: {'x' * (MAX_SCRIPT + 1)}\n", "is larger than 100 KiB"),
        ("run: [a]\n", "run expects a single value"),
        ("kind: Job\n", "this is a manifest, which needs no import"),
        ("command: true\n", "this is no batch script"),
    ],
)
def test_wrong_files_are_one_error(text, message):
    with pytest.raises(InputError) as raised:
        import_file(Text("task.yaml", text))
    assert message in str(raised.value)


def test_a_task_takes_no_arguments():
    with pytest.raises(InputError, match="takes no arguments; remove '--lr'"):
        import_file(Text("task.yaml", "run: x\n"), ["--lr", "1"])
