"""An ended job as a new submission: without its secrets there is none."""

import pytest

from windlass.core.lifecycle.transitions import create_state
from windlass.core.model.job import ArrayMember, Condition, Dependency, Job, Role
from windlass.core.model.status import JobState, Phase, Status
from windlass.jobs.kept_environment import without_secrets
from windlass.jobs.kubernetes.labels import RERUN_OF
from windlass.jobs.secret_values import hide_secrets
from windlass.server.errors import ApiError
from windlass.server.rerun import RerunEnvironment, rerun_environment, rerun_request
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
    assert submission.job.labels == {"team": "vision", RERUN_OF: "digits-1"}
    assert submission.job.roles == job.roles


@pytest.mark.parametrize("env", [{"API_KEY": "x"}, {"WINDLASS_CALL": '{"kwargs": {"api_key": "x"}}'}])
def test_a_job_with_hidden_secrets_is_refused(env: dict[str, str]) -> None:
    job = hide_secrets(Job("digits", (Role(env=env, command=("true",)),)))
    with pytest.raises(ApiError, match="had secrets in its definition"):
        rerun_request(ended(job))


def test_a_job_that_has_not_ended_is_refused() -> None:
    with pytest.raises(ApiError, match="has not ended"):
        rerun_request(create_state("digits-1", 1, Job("digits", (Role(command=("true",)),)), 0))


def test_it_has_the_environment_of_the_first_run_and_present_secrets() -> None:
    kept = without_secrets({"PATH": "/opt/torch/bin", "HF_TOKEN": "old", "WANDB_KEY": "gone"})
    found = rerun_environment(kept, {"PATH": "/bin", "HF_TOKEN": "new"})
    assert found == RerunEnvironment({"PATH": "/opt/torch/bin", "HF_TOKEN": "new"}, ("HF_TOKEN",), ("WANDB_KEY",))
    state = ended(Job("digits", (Role(command=("true",)),)))
    assert rerun_request(state, found.variables).environment == found.variables


@pytest.mark.parametrize("kept", [None, {}, {"WINDLASS_CHECKPOINTS": "/kept"}], ids=["none", "empty", "a place alone"])
def test_without_a_kept_environment_it_inherits_the_one_of_the_controller(kept: dict[str, str] | None) -> None:
    assert rerun_environment(kept, {"PATH": "/bin"}) == RerunEnvironment()
