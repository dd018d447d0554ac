"""Remains of a job that has ended: its pods, its services, and the counts of its pods."""

from judged_pods import NAMES, finish, other, pod, pods, pytorch
from member_stage import Stage

from windlass.core.lifecycle import events as e
from windlass.core.model.status import Phase


def test_the_time_to_live_ends_pods_that_would_be_left_to_end():
    stage = Stage(pytorch(cleanPodPolicy="None", ttlSecondsAfterFinished=2))
    for each in pods("Succeeded", "Running", "Running"):
        stage.put(each)
    stage.turn()
    assert (stage.executor.deleted, stage.status()["state"], stage.state.status.phase) == (
        [],
        "Succeeded",
        Phase.RUNNING,
    )
    stage.now = 2_000
    stage.turn(e.Timer())
    assert stage.executor.deleted == [*NAMES[1:]]
    finish(stage)
    assert stage.state.status.phase is Phase.SUCCEEDED


def test_the_end_of_a_run_waits_until_services_without_a_pod_are_deleted():
    stage = Stage(pytorch(cleanPodPolicy="Running"))
    for each in pods("Succeeded", "Running", "Running"):
        stage.put(each)
    stage.run.updating_dependents = True
    stage.turn()
    assert stage.executor.without_service == set()
    stage.run.updating_dependents = False
    stage.executor.removes_services = True
    stage.turn()
    assert stage.executor.without_service == {*NAMES[1:]}
    finish(stage)
    assert stage.state.status.phase is Phase.RUNNING
    stage.run.removing_services = False
    stage.turn()
    assert stage.state.status.phase is Phase.SUCCEEDED


def test_a_job_that_keeps_its_pods_keeps_the_service_of_a_deleted_one():
    stage = Stage(other("JAXJob", {"Worker": 2}))
    for index in range(2):
        stage.put(pod(f"digits-worker-{index}", "Running"))
    stage.turn()
    stage.remove("digits-worker-0")
    stage.turn(e.MemberExited(1, 0, e.Exit(code=1)))
    assert {role: each["failed"] for role, each in stage.status()["replicaStatuses"].items()} == {"Worker": 1}
    stage.put(pod("digits-worker-1", "Succeeded"))
    stage.turn()
    assert (stage.state.status.phase, stage.executor.without_service) == (Phase.FAILED, set())
