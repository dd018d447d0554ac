"""A job with cron as a CronJob whose Jobs are gangs of the operator."""

from __future__ import annotations

import pytest

from windlass.jobs.description.job_file import loads
from windlass.jobs.errors import InputError
from windlass.jobs.kubernetes.other_schedulers.cron_job import cron_job_objects

JOB = """\
name: nightly
command: torchrun train.py
nodes: 2
gpus: 4
image: train:1
cron: "0 3 * * *"
"""


def objects(more: str = "", job: str = JOB):
    [submission] = loads(job + more)
    return cron_job_objects(submission, "team")


def test_times_policy_and_limits_are_fields_of_the_cron_job():
    (cron_job, service), _ = objects(
        "time_zone: Europe/Berlin\ncron_policy: replace\ncron_deadline: 90500ms\ncron_keep: 5\nsuspend: true\n"
    )
    spec = cron_job["spec"]
    template = spec.pop("jobTemplate")
    assert spec == {
        "schedule": "0 3 * * *",
        "timeZone": "Europe/Berlin",
        "concurrencyPolicy": "Replace",
        "startingDeadlineSeconds": 91,
        "successfulJobsHistoryLimit": 5,
        "failedJobsHistoryLimit": 1,
        "suspend": True,
    }
    assert "suspend" not in template["spec"]
    assert (cron_job["metadata"]["namespace"], service["metadata"]["name"]) == ("team", "nightly")


def test_a_run_is_a_gang_of_the_operator_and_its_pods_know_the_first_one():
    (cron_job, _), _ = objects("queue: research\n")
    job = cron_job["spec"]["jobTemplate"]["spec"]
    pods = job["template"]
    assert (job["completionMode"], job["parallelism"], job["completions"]) == ("Indexed", 2, 2)
    assert pods["spec"]["schedulerName"] == "windlass"
    assert pods["metadata"]["labels"]["windlass.dev/gang"] == "nightly"
    assert pods["metadata"]["labels"]["windlass.dev/queue"] == "research"
    env = {each["name"]: each.get("value") for each in pods["spec"]["containers"][0]["env"]}
    assert next(iter(env)) == "WINDLASS_RUN", "Kubernetes expands names of earlier variables"
    assert (env["MASTER_ADDR"], env["WINDLASS_JOB_ID"]) == ("$(WINDLASS_RUN)-0.nightly", "$(WINDLASS_RUN)")


def test_fields_without_effect_are_named():
    _, warnings = objects("priority: 5\nstart_timeout: 1h\n")
    assert warnings == [
        "nightly: restart: the first failure ends a run, because a Job does not restart its gang",
        "nightly: priority: pods have a PriorityClass by name; write pod: {spec: {priorityClassName: NAME}}",
        "nightly: start_timeout: a CronJob has no such field",
    ]


@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        ("cron_policy: queue\n", "a CronJob lets no run wait; write skip or replace"),
        ("array: 0-3\n", "an array is many jobs"),
    ],
)
def test_a_field_that_a_cron_job_lacks_is_refused(more: str, wrong: str):
    with pytest.raises(InputError, match=wrong):
        objects(more)


@pytest.mark.parametrize("cron", ["0 3 L * *", "0 3 * * MON#2", "0 3 LW * *", "0 3 * * 5L"])
def test_days_that_kubernetes_cannot_read_are_refused(cron: str):
    with pytest.raises(InputError, match="knows no L, W and #"):
        objects(job=JOB.replace("0 3 * * *", cron))


def test_names_of_days_and_macros_are_kept():
    for cron in ("0 3 * JUL WED", "@daily"):
        (cron_job, _), _ = objects(job=JOB.replace("0 3 * * *", cron))
        assert cron_job["spec"]["schedule"] == cron
