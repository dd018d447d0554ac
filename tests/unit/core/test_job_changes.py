"""Changes of a job's description as a line of its history."""

from dataclasses import replace

from windlass.core.model.job import Job, Role
from windlass.core.model.job_changes import describe_changes

JOB = Job("digits", (Role(replicas=2, resources={"gpu": 1}, env={"HF_TOKEN": "a"}, command=("train", "--key", "a")),))


def with_role(**fields: object) -> Job:
    return replace(JOB, roles=(replace(JOB.roles[0], **fields),))


def test_changed_fields_are_named_with_both_values():
    after = replace(with_role(replicas=4, resources={"gpu": 2}), priority=7, walltime=7_200_000, gpu_types=("H100",))
    assert describe_changes(JOB, after) == (
        "priority 0 → 7; walltime none → 7200 s; gpu_types none → H100; worker.replicas 2 → 4; "
        "worker.resources gpu=1 → gpu=2"
    )


def test_values_that_may_be_secrets_are_left_out():
    after = with_role(env={"HF_TOKEN": "b"}, command=("train", "--key", "b"), pod='{"a": 1}')
    assert describe_changes(JOB, after) == "worker.command changed; worker.env changed; worker.pod changed"


def test_roles_are_compared_by_name():
    after = replace(JOB, roles=(Role("driver"),))
    assert describe_changes(JOB, after) == "role worker removed; role driver added"


def test_fields_of_the_backend_are_no_change():
    assert describe_changes(JOB, replace(JOB, labels={"a": "b"}, hold="until tomorrow")) == ""


def test_long_values_are_cut():
    assert len(describe_changes(JOB, replace(JOB, workdir="x" * 500))) < 90
