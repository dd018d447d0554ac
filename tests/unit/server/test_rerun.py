"""An ended job as a new submission: without its secrets there is none."""

import pytest

from windlass.core.lifecycle.transitions import create_state
from windlass.core.model.job import ArrayMember, Condition, Dependency, Job, Role
from windlass.core.model.status import JobState, Phase, Status
from windlass.jobs.secret_values import hide_secrets
from windlass.server.errors import ApiError
from windlass.server.rerun import rerun_request
from windlass.server.submission_request import KEY_LABEL


def ended(job: Job) -> JobState:
    return JobState("digits-1", 1, job, Status(Phase.FAILED))


def test_it_waits_for_nothing_and_belongs_to_no_array() -> None:
    job = Job(
        "digits",
        (Role(replicas=2, command=("python", "train.py")),),
        after=(Dependency("prep-1", Condition.SUCCEEDED),),
        array=ArrayMember("digits-1", 3, 0),
        labels={KEY_LABEL: "of the request", "team": "vision"},
    )
    (submission,) = rerun_request(ended(job)).submissions
    assert (submission.job.after, submission.job.array) == ((), None)
    assert submission.job.labels == {"team": "vision"}
    assert submission.job.roles == job.roles


def test_a_job_with_hidden_secrets_is_refused() -> None:
    job = hide_secrets(Job("digits", (Role(env={"API_KEY": "x"}, command=("true",)),)))
    with pytest.raises(ApiError, match="had secrets in its definition"):
        rerun_request(ended(job))


def test_a_job_that_has_not_ended_is_refused() -> None:
    with pytest.raises(ApiError, match="has not ended"):
        rerun_request(create_state("digits-1", 1, Job("digits", (Role(command=("true",)),)), 0))
