"""The parts of the port's contract that apply where another scheduler decides, on a real Slurm.

Slurm commits jobs itself, so a client has no state to recover: what was submitted outlives it, a repeated submission
starts the gang once, each end is reported with its cause, and a stop ends every member.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from backend_host import Behaviour
from slurm_cluster import SlurmCluster, slurm_cluster

from windlass.backends.slurm.commands import run_command
from windlass.backends.slurm.job_states import job_state
from windlass.backends.slurm.queries import list_jobs
from windlass.cli.slurm_cluster.client import SlurmClient
from windlass.core.model.job import Job, RestartPolicy, Role
from windlass.core.model.status import CANCELLED, JobState, Phase
from windlass.jobs.description.submission import Submission
from windlass.labs import lab_slurm
from windlass.server.errors import ApiError, ErrorCode

pytestmark = pytest.mark.timeout(300)
COMMANDS = {
    Behaviour.SUCCEED: ("true",),
    Behaviour.FAIL: ("sh", "-c", "exit 3"),
    Behaviour.RUN: ("sleep", "1000"),
    Behaviour.STUBBORN: ("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"),
    Behaviour.UNSTARTABLE: ("/no/such/program",),
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    with slurm_cluster() as started:
        yield started


@pytest.fixture(autouse=True)
def configuration(cluster: SlurmCluster, tmp_path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SLURM_CONF", cluster.environment["SLURM_CONF"])
    monkeypatch.chdir(tmp_path)
    yield
    cluster.cancel_all()


@pytest.fixture
def job(tmp_path):
    def job(behaviour: Behaviour, replicas: int = 1, restarts: int = 0) -> Submission:
        role = Role(replicas=replicas, resources={"gpu": 1}, command=COMMANDS[behaviour])
        policy = RestartPolicy(user_limit=restarts)
        return Submission(Job("job", (role,), workdir=str(tmp_path), restart=policy))

    return job


def state_of(job_id: str) -> JobState:
    return next(job_state(job) for job in list_jobs(run_command) if job.id == job_id)


def wait_for(cluster: SlurmCluster, job_id: str, *phases: Phase) -> JobState:
    cluster.wait_for(lambda: state_of(job_id).status.phase in phases)
    return state_of(job_id)


def wait_until_ready(cluster: SlurmCluster, client: SlurmClient, job_id: str) -> None:
    """Waits until a program has printed that it ignores SIGTERM."""
    wait_for(cluster, job_id, Phase.RUNNING)
    output = Path(client.find(job_id)[0].output)
    cluster.wait_for(lambda: output.exists() and "ready" in output.read_text())


def test_a_gang_that_succeeds_is_reported_with_its_one_attempt(cluster, job):
    (job_id,) = SlurmClient().submit([job(Behaviour.SUCCEED, replicas=2)])
    ended = wait_for(cluster, job_id, Phase.SUCCEEDED, Phase.FAILED)
    assert (ended.status.phase, ended.status.attempts, ended.job.members) == (Phase.SUCCEEDED, 1, 2)


def test_a_failing_member_is_reported_with_its_exit_code(cluster, job):
    (job_id,) = SlurmClient().submit([job(Behaviour.FAIL)])
    failure = wait_for(cluster, job_id, Phase.FAILED).status.last_failure
    assert failure is not None
    assert (failure.exit_code, failure.signal, failure.reason) == (3, None, "ExitCode")


def test_a_member_that_cannot_be_started_fails_with_the_reason_in_its_output(cluster, job):
    client = SlurmClient()
    (job_id,) = client.submit([job(Behaviour.UNSTARTABLE)])
    failure = wait_for(cluster, job_id, Phase.FAILED).status.last_failure
    assert failure is not None
    assert failure.exit_code == 127
    assert "/no/such/program" in Path(client.find(job_id)[0].output).read_text()


def test_a_stop_ends_every_member(cluster, job):
    client = SlurmClient()
    (job_id,) = client.submit([job(Behaviour.RUN, replicas=2)])
    wait_for(cluster, job_id, Phase.RUNNING)
    client.act("cancel", job_id)
    ended = wait_for(cluster, job_id, Phase.FAILED)
    assert ended.status.reason == CANCELLED
    lab_slurm.wait_until_ready(cluster.folder)


def test_a_stopped_job_with_restarts_left_does_not_come_back(cluster, job):
    client = SlurmClient()
    (job_id,) = client.submit([job(Behaviour.RUN, restarts=3)])
    wait_for(cluster, job_id, Phase.RUNNING)
    client.act("cancel", job_id)
    cluster.wait_for(lambda: not cluster.call("squeue", "--noheader"))
    assert state_of(job_id).status.reason == CANCELLED


def test_a_member_that_does_not_end_within_the_grace_is_killed(cluster, job):
    client = SlurmClient()
    (job_id,) = client.submit([job(Behaviour.STUBBORN)])
    wait_until_ready(cluster, client, job_id)
    client.act("cancel", job_id)
    wait_for(cluster, job_id, Phase.FAILED)
    lab_slurm.wait_until_ready(cluster.folder)


def test_a_stop_without_grace_is_refused(cluster, job):
    client = SlurmClient()
    (job_id,) = client.submit([job(Behaviour.RUN)])
    with pytest.raises(ApiError, match="only after its KillWait"):
        client.act("cancel", job_id, now=True)


def test_a_stop_of_an_unknown_job_is_an_error(cluster):
    with pytest.raises(ApiError) as error:
        SlurmClient().act("cancel", "4999")
    assert error.value.code is ErrorCode.NO_SUCH_JOB


def test_a_repeated_submission_starts_the_gang_once(cluster, job):
    once = SlurmClient().submit([job(Behaviour.SUCCEED)], key="a")
    assert SlurmClient().submit([job(Behaviour.SUCCEED)], key="a", again=True) == once


def test_a_gang_outlives_its_client_and_is_stopped_by_the_next(cluster, job):
    (job_id,) = SlurmClient().submit([job(Behaviour.RUN)])
    wait_for(cluster, job_id, Phase.RUNNING)
    SlurmClient().act("cancel", job_id.rpartition("-")[2])
    assert wait_for(cluster, job_id, Phase.FAILED).status.reason == CANCELLED


def test_jobs_are_submitted_all_or_none(cluster, job):
    impossible = Submission(Job("job", (Role(replicas=2, resources={"memory": 2**50}, command=("true",)),)))
    with pytest.raises(ApiError, match="Slurm refuses the job"):
        SlurmClient().submit([job(Behaviour.RUN), impossible])
    cluster.wait_for(lambda: not cluster.call("squeue", "--noheader"))
