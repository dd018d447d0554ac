"""The status of a job's object: conditions with their times, counts, and the pods deleted at its end."""

from dataclasses import replace

import pytest
import yaml

from windlass.core.model.status import Failure, FailureClass, Phase, Status, Target
from windlass.jobs.kubernetes.kinds.registry import read
from windlass.jobs.kubernetes.status.clean_up import pods_to_delete
from windlass.jobs.kubernetes.status.job_status import status_of
from windlass.jobs.kubernetes.status.member_conditions import Counts
from windlass.jobs.kubernetes.status.status_times import merge_conditions, milliseconds, rfc3339

T0 = 1_763_755_200_000
NOW, LATER = "2025-11-21T20:00:00Z", "2025-11-21T20:01:00Z"
MINUTE = 60_000

DIGITS = yaml.safe_load("""
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: digits}
spec:
  runPolicy: {ttlSecondsAfterFinished: 60, cleanPodPolicy: Running}
  pytorchReplicaSpecs:
    Worker: {replicas: 2, template: {spec: {containers: [{name: pytorch, image: i}]}}}
""")
OWN = yaml.safe_load("""
apiVersion: windlass.dev/v1alpha1
kind: TrainingJob
metadata: {name: digits}
spec: {command: torchrun a.py, image: i, nodes: 2}
""")


def alone(life, counts, before, now, **more):
    """The status of a job whose pods restart one by one."""
    return status_of(read({**DIGITS, "status": before}), life, {"worker": counts}, before, now, **more)


def by_type(status):
    return {each["type"]: each for each in status["conditions"]}


def test_times_are_whole_seconds():
    assert rfc3339(T0 + 999) == NOW
    assert milliseconds(NOW) == T0
    assert milliseconds("2025-11-21T20:00:00.500000Z") == T0 + 500
    assert (milliseconds(None), milliseconds("today"), milliseconds("2025-11-21T20:00:00")) == (None, None, None)


RUNNING = Status(Phase.RUNNING, "Running", generation=1, admitted_at=T0, started_at=T0 + MINUTE)


def test_a_job_with_single_restarts_from_its_start_to_its_end():
    begun = alone(replace(RUNNING, phase=Phase.RUNNING), Counts(), {}, T0)
    assert begun["startTime"] == NOW
    assert begun["conditions"] == [
        {
            "type": "Created",
            "status": "True",
            "reason": "PyTorchJobCreated",
            "message": "PyTorchJob digits is created.",
            "lastUpdateTime": NOW,
            "lastTransitionTime": NOW,
        }
    ]
    running = alone(RUNNING, Counts(active=2), begun, T0 + MINUTE)
    assert by_type(running)["Running"]["lastTransitionTime"] == LATER
    assert by_type(running)["Created"]["lastUpdateTime"] == NOW
    assert running["replicaStatuses"]["Worker"]["active"] == 2
    assert alone(RUNNING, Counts(active=2), running, T0 + 2 * MINUTE) == running  # nothing new, nothing to write
    succeeding = replace(RUNNING, target=Target.SUCCEED, ended_at=T0 + MINUTE)
    ended = alone(succeeding, Counts(succeeded=2), running, T0 + MINUTE)
    assert (ended["startTime"], ended["completionTime"]) == (NOW, LATER)
    assert [(each["type"], each["status"]) for each in ended["conditions"]] == [
        ("Created", "True"),
        ("Running", "False"),
        ("Succeeded", "True"),
    ]
    done = alone(Status(Phase.SUCCEEDED, finished_at=T0 + 2 * MINUTE), Counts(), ended, T0 + 2 * MINUTE)
    assert done["conditions"] == ended["conditions"]
    assert done["completionTime"] == LATER


def test_a_job_that_is_resumed_has_a_new_start_time():
    suspended = alone(Status(Phase.SUSPENDED), Counts(), {}, T0)
    assert "startTime" not in suspended
    queued = alone(Status(Phase.QUEUED, queued_at=T0 + MINUTE), Counts(), {**suspended, "startTime": NOW}, T0 + MINUTE)
    assert queued["startTime"] == LATER
    assert by_type(queued)["Suspended"] | {"lastUpdateTime": "", "lastTransitionTime": ""} == {
        "type": "Suspended",
        "status": "False",
        "reason": "PyTorchJobResumed",
        "message": "PyTorchJob digits is resumed.",
        "lastUpdateTime": "",
        "lastTransitionTime": "",
    }
    assert alone(RUNNING, Counts(active=2), queued, T0 + MINUTE)["startTime"] == LATER


def test_a_job_that_a_user_cancels_has_not_failed_before_its_pods_are_gone():
    stopping = replace(RUNNING, target=Target.FAIL, reason="Cancelled", message="cancelled by ada")
    assert by_type(alone(stopping, Counts(active=2), {}, T0)).keys() == {"Created", "Running"}
    status = alone(replace(stopping, phase=Phase.FAILED, finished_at=T0), Counts(), {}, T0)
    assert by_type(status)["Failed"]["message"] == "PyTorchJob digits has failed because cancelled by ada."


def test_the_counts_of_an_ended_job_are_those_of_its_end():
    """Its pods are deleted afterwards; training-operator counts them no more."""
    failing = replace(RUNNING, target=Target.FAIL, reason="Failed", message="digits-worker-1 exited with code 1")
    failed = alone(failing, Counts(active=1, failed=1), {}, T0)
    assert counts_of(failed)["Worker"] == {"active": 1, "failed": 1}
    for counts in (Counts(failed=2), Counts(failed=1), Counts()):
        failed = alone(failing, counts, failed, T0 + MINUTE)
        assert counts_of(failed)["Worker"] == {"active": 1, "failed": 1}
    succeeding = replace(RUNNING, target=Target.SUCCEED, stopping_since=T0)
    succeeded = alone(succeeding, Counts(active=1, succeeded=1), {}, T0)
    for life in (succeeding, Status(Phase.SUCCEEDED, finished_at=T0)):
        succeeded = alone(life, Counts(failed=1, succeeded=1), succeeded, T0 + MINUTE)
        assert counts_of(succeeded)["Worker"] == {"succeeded": 2}


def test_mpi_operator_counts_no_workers_of_an_ended_job():
    launcher = {"template": {"spec": {"containers": [{"name": "mpi", "image": "i"}]}}}
    pi = {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "pi"},
        "spec": {"mpiReplicaSpecs": {"Launcher": launcher, "Worker": {**launcher, "replicas": 2}}},
    }
    counts = {"launcher": Counts(succeeded=1), "worker": Counts(active=2)}
    succeeding = replace(RUNNING, target=Target.SUCCEED, stopping_since=T0)
    assert counts_of(status_of(read(pi), succeeding, counts, {}, T0)) == {"Launcher": {"succeeded": 1}, "Worker": {}}
    evicted = replace(RUNNING, target=Target.FAIL, reason="Evicted", message="evicted")
    counts = {"launcher": Counts(active=1), "worker": Counts(active=1, failed=1)}
    assert counts_of(status_of(read(pi), evicted, counts, {}, T0))["Worker"] == {"active": 1, "failed": 1}


def test_workers_of_an_mpijob_v1_are_not_counted_once_its_launcher_has_ended():
    template = {"template": {"spec": {"containers": [{"name": "mpi", "image": "i"}]}}}
    pi = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "MPIJob",
        "metadata": {"name": "pi"},
        "spec": {"mpiReplicaSpecs": {"Launcher": template, "Worker": {**template, "replicas": 2}}},
    }
    succeeding = replace(RUNNING, target=Target.SUCCEED, stopping_since=T0)
    counts = {"launcher": Counts(succeeded=1), "worker": Counts(active=2)}
    assert counts_of(status_of(read(pi), succeeding, counts, {}, T0)) == {"Launcher": {"succeeded": 1}, "Worker": {}}
    failing = replace(RUNNING, target=Target.FAIL, reason="Failed", message="pi-worker-0 exited with code 1")
    counts = {"launcher": Counts(active=1), "worker": Counts(active=1, failed=1)}
    assert counts_of(status_of(read(pi), failing, counts, {}, T0))["Worker"] == {"active": 1, "failed": 1}


def test_a_suspended_mpijob_v2_does_not_run():
    """mpi-operator writes so even of a job that has never run."""
    template = {"template": {"spec": {"containers": [{"name": "mpi", "image": "i"}]}}}
    pi = {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "pi"},
        "spec": {"mpiReplicaSpecs": {"Launcher": template, "Worker": template}, "runPolicy": {"suspend": True}},
    }
    suspended = by_type(status_of(read(pi), Status(Phase.SUSPENDED), {}, {}, T0))
    assert (suspended["Running"]["status"], suspended["Running"]["reason"]) == ("False", "MPIJobSuspended")


def counts_of(status):
    found = status["replicaStatuses"].items()
    return {name: {key: number for key, number in each.items() if key != "selector"} for name, each in found}


@pytest.mark.parametrize("manifest", [DIGITS, OWN], ids=["members", "gang"])
def test_the_condition_admitted_holds_while_a_job_runs(manifest):
    status = {}
    for phase, active in ((Phase.ADMITTED, 0), (Phase.RUNNING, 1), (Phase.RUNNING, 2)):
        counts = {"worker": Counts(active=active)}
        status = status_of(read(manifest), replace(RUNNING, phase=phase), counts, status, T0)
        assert by_type(status)["Admitted"]["status"] == "True"
    assert by_type(status)["Running"]["status"] == "True"
    ended = lived(manifest, Status(Phase.FAILED, "Failed", finished_at=T0), status)
    assert by_type(ended)["Admitted"]["status"] == "False"


def lived(manifest, life, before=(), now=T0, **options):
    return status_of(read(manifest), life, {"worker": Counts(active=2)}, dict(before), now, **options)


FAILURE = Failure(FailureClass.USER, "ExitCode", "digits-worker-1 exited with code 1", T0, 1, 1)


def test_a_gang_shows_its_pending_reason_and_its_size():
    queued = lived(OWN, Status(Phase.QUEUED, "Queued"), waits="needs 16 GPUs, 11 are free", reason="WaitingForRoom")
    status = queued["conditions"][-1]
    assert (status["type"], status["reason"]) == ("Queued", "WaitingForRoom")
    assert status["message"] == "TrainingJob digits waits in the queue: needs 16 GPUs, 11 are free."
    running = Status(Phase.RUNNING, "Running", generation=1, started_at=T0)
    status = lived(OWN, running, queued, T0 + MINUTE)
    assert [(each["type"], each["status"]) for each in status["conditions"]] == [
        ("Created", "True"),
        ("Queued", "False"),
        ("Running", "True"),
    ]
    assert (status["startTime"], status["attempts"]) == (NOW, 1)
    selector = "windlass.dev/job-name=digits,windlass.dev/role=worker"
    assert status["replicaStatuses"] == {"worker": {"active": 2, "selector": selector}}
    assert lived(OWN, running, status, T0 + 5 * MINUTE) == status


def test_a_restart_reports_the_failure_and_counts_it():
    life = Status(
        Phase.RESTARTING,
        "ExitCode",
        FAILURE.message,
        generation=2,
        user_failures=1,
        started_at=T0,
        last_failure=FAILURE,
    )
    status = lived(DIGITS, life, lived(DIGITS, Status(Phase.RUNNING, "Running", generation=2)))
    assert status["conditions"][-1] | {"lastUpdateTime": "", "lastTransitionTime": ""} == {
        "type": "Restarting",
        "status": "True",
        "reason": "PyTorchJobRestarting",
        "message": "PyTorchJob digits is restarting: digits-worker-1 exited with code 1.",
        "lastUpdateTime": "",
        "lastTransitionTime": "",
    }
    assert (status["attempts"], status["failures"]["user"]) == (2, 1)
    assert status["lastFailure"] == {
        "kind": "user",
        "reason": "ExitCode",
        "message": FAILURE.message,
        "time": NOW,
        "member": 1,
        "exitCode": 1,
    }


def test_an_ended_job_keeps_its_conditions():
    failed = lived(DIGITS, Status(Phase.FAILED, "ExitCode", FAILURE.message, finished_at=T0))
    assert failed["conditions"][-1]["message"] == f"PyTorchJob digits has failed because {FAILURE.message}."
    assert failed["completionTime"] == NOW
    later = Status(Phase.SUCCEEDED, "Succeeded", finished_at=T0 + MINUTE)
    assert lived(DIGITS, later, failed)["conditions"] == failed["conditions"]
    done = lived(DIGITS, Status(Phase.SUCCEEDED, finished_at=T0))
    assert done["replicaStatuses"]["Worker"]["succeeded"] == 2  # who was active still has succeeded with the job


@pytest.mark.parametrize("end", ["Succeeded", "Failed", "Complete"])
@pytest.mark.parametrize("phase", [Phase.QUEUED, Phase.RUNNING, Phase.SUSPENDED])
def test_an_end_that_another_writer_puts_into_a_status_is_removed(end, phase):
    before = lived(DIGITS, Status(phase))
    foreign = {**before, "completionTime": NOW, "conditions": [*before["conditions"], {"type": end, "status": "True"}]}
    status = lived(DIGITS, Status(phase), foreign)
    assert end not in by_type(status)
    assert status["completionTime"] is None, "a merge patch removes it"
    assert by_type(status).keys() == by_type(before).keys()


@pytest.mark.parametrize(
    ("policy", "gone"),
    [("None", ()), ("Running", ("a", "b")), ("All", ("a", "b", "c", "d"))],
)
def test_the_policy_names_the_pods_to_delete(policy, gone):
    parsed = read(DIGITS)
    parsed = replace(parsed, run_policy=replace(parsed.run_policy, clean_pod_policy=policy))
    assert pods_to_delete(parsed, Status(), {"a": "Running", "b": "Pending", "c": "Succeeded", "d": "Failed"}) == gone


def test_merged_conditions_leave_others_alone():
    before = [{"type": "Other", "status": "True", "lastTransitionTime": NOW}]
    conditions = [{"type": "Mine", "status": "True", "reason": "Is", "message": ""}]
    merged = merge_conditions(before, conditions, LATER)
    assert merged == [*before, {**conditions[0], "lastTransitionTime": LATER}]
    again = merge_conditions(merged, [{**conditions[0], "message": "more"}], "2025-11-21T20:02:00Z")
    assert again[1] == {**conditions[0], "message": "more", "lastTransitionTime": LATER}


TRAIN = yaml.safe_load("""
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: digits}
spec: {runtimeRef: {name: torch-distributed}, trainer: {image: i, numNodes: 2}}
""")


def trained(life, before=(), active=2):
    return status_of(read(TRAIN), life, {"node": Counts(active=active)}, dict(before), T0, waits="no room")


def test_a_trainjob_has_the_conditions_and_counts_that_its_tools_wait_for():
    queued = trained(Status(Phase.QUEUED, "Queued"), active=0)
    assert queued["conditions"] == [
        {"type": "Queued", "status": "True", "reason": "Queued", "message": "no room", "lastTransitionTime": NOW}
    ]
    assert queued["jobsStatus"] == [
        {"name": "node", "ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 0}
    ]
    running = trained(Status(Phase.RUNNING, "Running", generation=1), queued)
    assert running["conditions"] == []  # a TrainerClient looks at the pods only then
    assert (running["jobsStatus"][0]["ready"], running["jobsStatus"][0]["active"]) == (1, 1)
    suspended = trained(Status(Phase.SUSPENDED), running)
    assert by_type(suspended)["Suspended"]["status"] == "True"
    resumed = trained(Status(Phase.RUNNING, "Running", generation=2), suspended)
    assert by_type(resumed)["Suspended"]["reason"] == "Resumed"
    done = trained(Status(Phase.SUCCEEDED), resumed)
    assert by_type(done)["Complete"]["reason"] == "AllJobsCompleted"
    assert trained(Status(Phase.FAILED, "ExitCode"), done)["conditions"] == done["conditions"]
