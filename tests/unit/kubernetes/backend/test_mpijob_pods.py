"""MPIJobs of both versions: launchers and workers that run, end, or are deleted."""

import pytest
from judged_pods import by_type, finish, judged, other, pod, true_conditions
from member_stage import Stage

from windlass.backends.kubernetes.client.owners import OwnerKey
from windlass.jobs.kubernetes.status.conditions import conditions_of, end_of

V1 = other("MPIJob", {"Launcher": 1, "Worker": 1})


@pytest.mark.parametrize("deleted", ["launcher", "worker-0"])
def test_a_deleted_pod_of_an_mpijob_v1_is_created_again(deleted):
    objects = [pod(f"digits-{name}", "Running", deleted=name == deleted) for name in ("launcher", "worker-0")]
    verdict = judged(V1, objects)
    assert (verdict.ended, verdict.anew) == ("", 0)
    stage = Stage(V1)
    for each in objects:
        stage.put(each)
    stage.turn()
    stage.remove(f"digits-{deleted}")
    stage.turn()
    assert stage.executor.created == [f"digits-{deleted}"]


def test_a_failed_pod_of_an_mpijob_v1_ends_the_job_even_if_its_end_was_not_observed():
    running = pod("digits-launcher", "Running")
    lost = {**pod("digits-worker-0", "Failed"), "status": {"phase": "Failed"}}
    assert judged(V1, [running, lost]).ended == "Failed"


V2 = other("MPIJob", {"Launcher": 1, "Worker": 1}, "v2beta1", runPolicy={"cleanPodPolicy": "Running"})


def launcher(**condition):
    listed = [{"status": "True", **condition}] if condition else []
    return {"kind": "Job", "metadata": {"name": "digits-launcher"}, "status": {"conditions": listed}}


def launcher_pod(phase, **more):
    labels = {"training.kubeflow.org/job-role": "launcher"}
    return pod("digits-launcher-x7k", phase, labels=labels, **more)


def test_an_mpijob_v2_runs_when_its_launcher_and_all_workers_do():
    verdict = judged(V2, [launcher(), launcher_pod("Running"), pod("digits-worker-0", "Running")])
    assert true_conditions(verdict)["Running"] == "MPIJobRunning"
    assert judged(V2, [launcher()]).create == ("digits-worker-0",)
    assert "Running" not in true_conditions(
        judged(V2, [launcher(), launcher_pod("Running"), pod("digits-worker-0", "Pending")])
    )


def test_an_mpijob_v2_ends_with_its_launchers_job():
    worker = pod("digits-worker-0", "Running")
    verdict = judged(V2, [launcher(type="Complete"), launcher_pod("Succeeded"), worker])
    assert (verdict.ended, verdict.delete) == ("Succeeded", ("digits-worker-0",))
    assert verdict.replica_statuses["Launcher"]["succeeded"] == 1
    failed = launcher(type="Failed", reason="BackoffLimitExceeded", message="Job has reached the limit")
    verdict = judged(V2, [failed, launcher_pod("Failed", code=2), worker])
    assert verdict.conditions[-1]["reason"] == "BackoffLimitExceeded"
    assert (
        verdict.conditions[-1]["message"] == "Job has reached the limit: digits-launcher-x7k on n0 exited with code 2"
    )


def test_a_deleted_launcher_of_an_mpijob_v2_is_the_business_of_its_job():
    objects = [launcher(), launcher_pod("Running", deleted=True), pod("digits-worker-0", "Running")]
    assert judged(V2, objects).ended == ""
    failed = launcher(type="Failed", reason="DeadlineExceeded", message="Job was active longer than specified deadline")
    verdict = judged(V2, [*objects, failed])
    assert verdict.ended == ""  # it says so once its pod is gone
    stage = Stage(V2)
    for each in objects:
        stage.put(each)
    stage.turn()
    stage.remove("digits-launcher-x7k")
    stage.turn()
    stage.put({**failed, "status": {**failed["status"], "failed": 1}})
    stage.turn()
    status = stage.status()
    assert by_type(status)["Failed"]["reason"] == "DeadlineExceeded"
    assert status["replicaStatuses"]["Launcher"]["failed"] == 1


def test_the_reason_of_a_launchers_job_counts_while_its_pod_is_still_being_deleted():
    failed = launcher(type="Failed", reason="DeadlineExceeded", message="Job was active longer than specified deadline")
    ending = launcher_pod("Failed", code=143, deleted=True)
    verdict = judged(V2, [failed, ending, pod("digits-worker-0", "Running")])
    assert true_conditions(verdict)["Failed"] == "DeadlineExceeded"


@pytest.mark.parametrize(("end", "forgotten"), [({}, ["digits"]), ({"type": "Complete"}, [])])
def test_a_job_of_a_launcher_that_is_deleted_before_its_end_is_created_again(end, forgotten):
    stage = Stage(V2)
    for each in (launcher(**end), launcher_pod("Running"), pod("digits-worker-0", "Running")):
        stage.put(each)
    stage.turn()
    (job,) = stage.launchers.of(OwnerKey("ml", "u"))
    stage.see_job(job, there=False)
    stage.turn()
    assert stage.executor.forgotten == forgotten
    assert end_of(conditions_of({"status": stage.status()})) == ""


def test_an_evicted_worker_ends_an_mpijob_v2_and_is_cleaned_up_after():
    objects = [launcher(), launcher_pod("Running"), pod("digits-worker-0", "Failed", reason="Evicted")]
    verdict = judged({**V2, "spec": {**V2["spec"], "runPolicy": {"cleanPodPolicy": "All"}}}, objects)
    assert true_conditions(verdict)["Failed"] == "MPIJobEvicted"
    assert verdict.delete == ("digits-worker-0",)


@pytest.mark.parametrize("policy", ["None", "Running", "All"])
def test_the_launcher_of_an_mpijob_v2_is_kept_with_its_log(policy):
    """The policy is one for workers."""
    stage = Stage({**V2, "spec": {**V2["spec"], "runPolicy": {"cleanPodPolicy": policy}}})
    for each in (launcher(type="Complete"), launcher_pod("Succeeded"), pod("digits-worker-0", "Running")):
        stage.put(each)
    stage.turn()
    finish(stage)
    assert stage.executor.deleted == ([] if policy == "None" else ["digits-worker-0"])
    assert stage.launchers.of(OwnerKey("ml", "u"))


@pytest.mark.parametrize(("spec", "gone"), [({}, ["digits-launcher-x7k"]), ({"nodeName": "n0"}, [])])
def test_an_ended_mpijob_v2_does_not_wait_for_a_launcher_without_a_node(spec, gone):
    stage = Stage({**V2, "spec": {**V2["spec"], "runPolicy": {"cleanPodPolicy": "None"}}})
    evicted = pod("digits-worker-0", "Failed", reason="Evicted")
    for each in (launcher(), {**launcher_pod("Pending"), "spec": spec}, evicted):
        stage.put(each)
    stage.turn()
    assert stage.executor.deleted == gone
    assert bool(stage.launchers.of(OwnerKey("ml", "u"))) is not bool(gone)
