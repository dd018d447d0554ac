"""A job with cron as a CronTrainingJob, which is read back as the same schedule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from windlass.jobs.description.job_file import loads
from windlass.jobs.errors import InputError
from windlass.jobs.kubernetes.manifests.cron_training_job_manifest import cron_training_job_manifest, run_of_schedule
from windlass.jobs.kubernetes.schedules.cron_training_job import read

JOB = """\
name: nightly
command: torchrun train.py
nodes: 2
gpus: 4
image: train:1
priority: 5
labels: {team: vision}
cron: "0 3 * * MON#2"
"""


def schedule(more: str = "", job: str = JOB):
    [read_here] = loads(job + more, user="ada")
    submission = replace(read_here, job=replace(read_here.job, workdir=""))
    return submission, cron_training_job_manifest(submission, "team")


def test_the_schedule_is_read_back():
    submission, (manifest, warnings) = schedule(
        "time_zone: Europe/Berlin\ncron_policy: queue\ncron_deadline: 90s\ncron_keep: 5\nsuspend: true\n"
    )
    found = read(manifest)
    assert found.schedule == submission.schedule
    assert (found.name, found.namespace, found.suspended, warnings) == ("nightly", "team", True, [])


def test_a_run_keeps_the_fields_of_the_job_and_is_not_suspended():
    _, (manifest, _) = schedule("suspend: true\n")
    run = run_of_schedule(manifest)
    assert (run["kind"], run["metadata"]) == ("TrainingJob", {"name": "nightly", "namespace": "team"})
    assert (run["spec"]["priority"], run["spec"]["nodes"], run["spec"]["labels"]) == (5, 2, {"team": "vision"})
    assert "suspend" not in run["spec"]
    assert "cron" not in run["spec"]


@pytest.mark.parametrize(
    ("more", "job", "wrong"),
    [
        ("array: 0-3\n", JOB, "an array is many jobs; leave out array, or cron"),
        ("", JOB.replace("nightly", "n" * 48), "metadata.name: is 3 characters too long: n*-66666666-worker-"),
        ("pod: {spec: {nodeSelector: []}}\n", JOB, "nodeSelector"),
    ],
)
def test_a_schedule_that_could_not_run_is_refused(more: str, job: str, wrong: str):
    with pytest.raises(InputError, match=wrong):
        schedule(more, job)
