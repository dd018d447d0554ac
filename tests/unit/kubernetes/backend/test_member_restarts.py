"""Jobs whose pods restart one by one: restarts, ends, conditions and deleted pods, from the pods as they are."""

import pytest
from judged_pods import NAMES, finish, judged, other, pod, pods, pytorch, true_conditions
from member_stage import Stage

from windlass.core.lifecycle import events as e
from windlass.core.model.status import Phase


def test_a_new_job_is_created_and_all_its_pods_are_missing():
    verdict = judged(pytorch(), [])
    assert verdict.create == NAMES
    assert verdict.conditions == (
        {
            "type": "Created",
            "status": "True",
            "reason": "PyTorchJobCreated",
            "message": "PyTorchJob digits is created.",
        },
    )


def test_a_job_runs_when_its_master_does():
    verdict = judged(pytorch(), pods("Running", "Pending", "Running"))
    assert true_conditions(verdict) == {"Created": "PyTorchJobCreated", "Running": "PyTorchJobRunning"}
    assert verdict.replica_statuses["Worker"] == {
        "active": 1,
        "selector": "training.kubeflow.org/job-name=digits,training.kubeflow.org/operator-name=pytorchjob-controller,"
        "training.kubeflow.org/replica-type=worker",
    }
    assert (verdict.create, verdict.delete) == ((), ())


def test_a_failed_pod_is_deleted_and_created_again():
    objects = [*pods("Running", "Running", "Running")[:2], pod(NAMES[2], "Failed", code=1)]
    verdict = judged(pytorch(), objects)
    assert (verdict.delete, verdict.anew, verdict.create) == ((NAMES[2],), 1, ())
    assert "Running" not in true_conditions(verdict)
    assert verdict.conditions[-1]["message"] == (
        "PyTorchJob digits is restarting because digits-worker-1 exited with code 1."
    )
    gone = judged(pytorch(), objects[:2])
    assert gone.create == (NAMES[2],)


def test_a_failure_is_no_restart_before_the_controller_has_decided_on_it():
    """It may end the job: a status that is written in between says neither."""
    stage = Stage(pytorch())
    for each in pods("Running", "Running", "Running"):
        stage.put(each)
    stage.turn()
    stage.put(pod(NAMES[2], "Failed", code=1))
    assert [each["type"] for each in stage.status()["conditions"] if each["status"] == "True"] == ["Created", "Running"]
    stage.turn()
    assert "Restarting" in [each["type"] for each in stage.status()["conditions"] if each["status"] == "True"]


def test_a_pod_that_is_being_deleted_is_not_deleted_again():
    objects = [*pods("Running", "Running", "Running")[:2], pod(NAMES[2], "Failed", code=1, deleted=True)]
    verdict = judged(pytorch(), objects)
    assert (verdict.delete, verdict.anew, verdict.ended) == ((), 0, "")


def test_running_and_restarting_exclude_each_other():
    status = {"conditions": [{"type": "Restarting", "status": "True", "reason": "PyTorchJobRestarting"}]}
    assert set(true_conditions(judged(pytorch(status=status), pods("Running", "Running", "Running")))) == {
        "Created",
        "Running",
    }


@pytest.mark.parametrize(
    ("policy", "code", "ended"),
    [("Never", 1, "Failed"), ("ExitCode", 1, "Failed"), ("ExitCode", 137, ""), ("OnFailure", 1, ""), ("Always", 1, "")],
)
def test_the_restart_policy_decides_what_a_failure_means(policy, code, ended):
    objects = [*pods("Running", "Running", "Running")[:2], pod(NAMES[2], "Failed", code=code)]
    assert judged(pytorch(policy=policy), objects).ended == ended


def test_a_pod_that_never_came_to_run_is_retryable_under_exit_code():
    evicted = pod(NAMES[2], "Failed", reason="Evicted")
    assert judged(pytorch(policy="ExitCode"), [evicted]).delete == (NAMES[2],)


def test_a_running_pod_that_is_deleted_counts_as_failed():
    objects = [pod(NAMES[0], "Running", deleted=True), *pods("Running", "Running", "Running")[1:]]
    assert judged(pytorch(), objects).replica_statuses["Master"]["failed"] == 1
    assert judged(pytorch(policy="Never"), objects).ended == "Failed"


def test_the_masters_success_is_the_jobs_and_active_replicas_succeed_with_it():
    verdict = judged(pytorch(), pods("Succeeded", "Running", "Running"))
    assert verdict.ended == "Succeeded"
    assert verdict.replica_statuses["Worker"]["succeeded"] == 2
    assert "active" not in verdict.replica_statuses["Worker"]
    assert verdict.delete == ()


@pytest.mark.parametrize(
    ("policy", "gone"),
    [("None", ()), ("Running", ("digits-worker-0", "digits-worker-1")), ("All", NAMES)],
)
def test_clean_pod_policy_takes_pending_pods_for_running_ones(policy, gone):
    assert judged(pytorch(cleanPodPolicy=policy), pods("Succeeded", "Pending", "Running")).delete == gone


WAITS_FOR_IMAGE = [{"name": "pytorch", "state": {"waiting": {"reason": "InvalidImageName"}}}]


def waiting_for_the_master(name, **state):
    """A pod whose init container has not resolved the master's name: an ended pod has none."""
    statuses = [{"name": "init-pytorch", "state": state}] if state else []
    status = {"phase": "Pending", "initContainerStatuses": statuses}
    return {**pod(name, "Pending"), "spec": {"nodeName": "n1", "initContainers": [{"name": "init-pytorch"}]}} | {
        "status": status
    }


@pytest.mark.parametrize(
    "worker",
    [
        {**pod(NAMES[1], "Pending"), "spec": {}},
        {**pod(NAMES[1], "Pending"), "status": {"phase": "Pending", "containerStatuses": WAITS_FOR_IMAGE}},
        waiting_for_the_master(NAMES[1]),
        waiting_for_the_master(NAMES[1], running={}),
        waiting_for_the_master(NAMES[1], terminated={"exitCode": 1}),
    ],
    ids=["without a node", "without an image", "not started", "without a master", "tried in vain"],
)
def test_a_pod_that_will_never_run_does_not_keep_a_job_from_its_end(worker):
    stage = Stage(pytorch(cleanPodPolicy="None"))
    for each in (pod(NAMES[0], "Succeeded"), worker, pod(NAMES[2], "Running")):
        stage.put(each)
    stage.turn()
    assert stage.executor.deleted == [NAMES[1]]
    finish(stage)
    assert stage.state.status.phase is Phase.RUNNING
    stage.put(pod(NAMES[2], "Succeeded"))
    stage.turn()
    assert stage.state.status.phase is Phase.SUCCEEDED


def test_a_pod_that_has_found_its_master_is_left_to_end():
    stage = Stage(pytorch(cleanPodPolicy="None"))
    found = waiting_for_the_master(NAMES[1], terminated={"exitCode": 0})
    for each in (pod(NAMES[0], "Succeeded"), found, pod(NAMES[2], "Running")):
        stage.put(each)
    stage.turn()
    assert stage.executor.deleted == []


def test_a_pod_that_waits_for_a_running_master_is_left_to_end():
    stage = Stage(pytorch(cleanPodPolicy="None", policy="Never"))
    waiting = waiting_for_the_master(NAMES[1], running={})
    for each in (pod(NAMES[0], "Running"), waiting, pod(NAMES[2], "Failed", code=1)):
        stage.put(each)
    stage.turn()
    assert stage.run.stopping
    assert stage.executor.deleted == []


def test_all_pods_of_an_ended_job_are_deleted_once_its_object_is():
    stage = Stage(pytorch(cleanPodPolicy="None"))
    for each in pods("Succeeded", "Running", "Running"):
        stage.put(each)
    stage.turn()
    assert stage.executor.deleted == []
    stage.gang.deleted = True
    stage.turn()
    assert stage.executor.deleted == [*NAMES[1:]]


@pytest.mark.parametrize(("elastic", "ended"), [(False, ""), (True, "Succeeded")])
def test_workers_alone_must_all_succeed_unless_the_job_is_elastic(elastic, ended):
    objects = pods("Running", "Succeeded", "Running")[1:]
    assert judged(pytorch(workers_alone=True, elastic=elastic), objects).ended == ended
    done = pods("Running", "Succeeded", "Succeeded")[1:]
    assert judged(pytorch(workers_alone=True), done).ended == "Succeeded"


def test_an_ended_job_stays_as_it_is():
    ended = [{"type": "Failed", "status": "True", "reason": "PyTorchJobFailed", "message": "m"}]
    verdict = judged(
        pytorch(status={"conditions": ended}, cleanPodPolicy="Running"), pods("Succeeded", "Running", "Failed")
    )
    assert true_conditions(verdict) == {"Failed": "PyTorchJobFailed"}
    assert (verdict.create, verdict.delete) == ((), ("digits-worker-0",))


def test_running_is_false_after_the_end():
    status = {"conditions": [{"type": "Running", "status": "True", "reason": "PyTorchJobRunning"}]}
    verdict = judged(pytorch(status=status), pods("Succeeded", "Running", "Running"))
    assert {each["type"]: each["status"] for each in verdict.conditions}["Running"] == "False"


def test_suspension_deletes_every_pod_and_resuming_creates_them_again():
    status = {
        "conditions": [{"type": "Running", "status": "True", "reason": "PyTorchJobRunning"}],
        "replicaStatuses": {"Worker": {"active": 2}},
    }
    verdict = judged(pytorch(status=status, suspend=True), pods("Running", "Running", "Succeeded"))
    assert verdict.delete == NAMES
    assert true_conditions(verdict) == {"Created": "PyTorchJobCreated", "Suspended": "PyTorchJobSuspended"}
    assert not any("active" in each for each in verdict.replica_statuses.values())
    resumed = judged(pytorch(status={"conditions": list(verdict.conditions)}), [])
    assert resumed.create == NAMES
    assert [each for each in resumed.conditions if each["type"] == "Suspended"] == [
        {
            "type": "Suspended",
            "status": "False",
            "reason": "PyTorchJobResumed",
            "message": "PyTorchJob digits is resumed.",
        }
    ]


@pytest.mark.parametrize(
    ("limit", "kubelet", "remade", "failing", "ended"),
    [
        (3, 2, 0, False, ""),
        (3, 3, 0, False, "Failed"),  # as V1: the limit is reached, not exceeded
        (0, 1, 0, False, "Failed"),
        (0, 0, 0, True, "Failed"),
        (3, 0, 2, True, ""),
        (3, 0, 3, True, "Failed"),  # recreated pods count, which they do not in V1
        (3, 0, 3, False, ""),
    ],
)
def test_the_backoff_limit_counts_what_kubelets_and_we_have_restarted(limit, kubelet, remade, failing, ended):
    last = pod(NAMES[2], "Failed", code=1) if failing else pod(NAMES[2], "Running")
    objects = [pod(NAMES[0], "Running", restarts=kubelet), pod(NAMES[1], "Running"), last]
    verdict = judged(pytorch(backoffLimit=limit, cleanPodPolicy="None"), objects, remade=remade)
    assert verdict.ended == ended
    assert verdict.delete == (NAMES if ended else NAMES[2:] if failing else ())


def test_the_deadline_counts_from_the_start():
    manifest = pytorch(activeDeadlineSeconds=60)
    assert judged(manifest, pods("Running", "Running", "Running"), active_for=59_999).ended == ""
    verdict = judged(manifest, pods("Running", "Running", "Running"), active_for=60_000)
    assert verdict.ended == "Failed"
    assert verdict.conditions[-1]["message"].endswith("because it was active longer than the specified deadline.")


def test_pods_beyond_the_replicas_are_deleted():
    assert judged(pytorch(), [*pods("Running", "Running", "Running"), pod("digits-worker-2", "Running")]).delete == (
        "digits-worker-2",
    )


@pytest.mark.parametrize(
    ("manifest", "states", "ended"),
    [
        (other("TFJob", {"Chief": 1, "Worker": 1}), {"chief-0": "Succeeded", "worker-0": "Running"}, "Succeeded"),
        (other("TFJob", {"Worker": 2}), {"worker-0": "Succeeded", "worker-1": "Running"}, "Succeeded"),
        (other("TFJob", {"Worker": 2}), {"worker-0": "Running", "worker-1": "Succeeded"}, ""),
        (
            other("TFJob", {"Worker": 2}, successPolicy="AllWorkers"),
            {"worker-0": "Succeeded", "worker-1": "Running"},
            "",
        ),
        (other("TFJob", {"Worker": 2}), {"worker-0": "Running", "worker-1": "Failed"}, "Failed"),
        (
            other("TFJob", {"Worker": 2}, enableDynamicWorker=True),
            {"worker-0": "Running", "worker-1": "Failed"},
            "",
        ),
        (other("JAXJob", {"Worker": 2}), {"worker-0": "Succeeded", "worker-1": "Running"}, ""),
        (
            other("XGBoostJob", {"Master": 1, "Worker": 1}),
            {"master-0": "Succeeded", "worker-0": "Running"},
            "Succeeded",
        ),
        (other("MPIJob", {"Launcher": 1, "Worker": 1}), {"launcher": "Succeeded", "worker-0": "Running"}, "Succeeded"),
        (other("MPIJob", {"Launcher": 1, "Worker": 1}), {"launcher": "Failed", "worker-0": "Running"}, "Failed"),
    ],
)
def test_the_kind_names_the_deciding_replicas(manifest, states, ended):
    assert judged(manifest, [pod(f"digits-{name}", phase) for name, phase in states.items()]).ended == ended


@pytest.mark.parametrize(("policy", "without"), [("None", set()), ("Running", set(NAMES[1:])), ("All", set(NAMES))])
def test_services_go_with_the_pods_that_the_policy_deletes(policy, without):
    stage = Stage(pytorch(cleanPodPolicy=policy))
    for each in pods("Succeeded", "Pending", "Running"):
        stage.put(each)
    stage.turn()
    finish(stage)
    assert stage.executor.without_service == without


def test_services_go_with_the_pods_of_a_suspended_job():
    stage = Stage(pytorch())
    for each in pods("Running", "Running", "Running"):
        stage.put(each)
    stage.turn(e.Suspend())
    finish(stage)
    assert stage.state.status.phase is Phase.SUSPENDED
    assert stage.executor.without_service == set(NAMES)


def test_a_suspended_job_counts_no_pods_although_they_are_still_being_deleted():
    stage = Stage(pytorch())
    for each in pods("Running", "Running", "Running"):
        stage.put(each)
    stage.turn(e.Suspend())
    for name in NAMES:
        stage.put(pod(name, "Failed", code=143, deleted=True))
    stage.turn()
    status = stage.status()
    assert stage.state.status.phase is Phase.SUSPENDED
    assert [set(each) for each in status["replicaStatuses"].values()] == [{"selector"}, {"selector"}]


@pytest.mark.parametrize(
    "status", [None, [], {"conditions": 3}, {"conditions": [1, {"type": 2}], "replicaStatuses": []}]
)
def test_a_status_of_any_shape_is_as_good_as_none(status):
    assert judged(pytorch(status=status), []).create == NAMES
