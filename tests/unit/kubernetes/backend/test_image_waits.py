"""Pods that wait for an image which the kubelet cannot pull."""

import pytest
from member_stage import Stage

from windlass.core.lifecycle.events import Timer

NAMES = tuple(f"digits-worker-{number}" for number in range(5))


def job(**run_policy):
    template = {"spec": {"containers": [{"name": "pytorch", "image": "i"}]}}
    specs = {"Worker": {"replicas": len(NAMES), "template": template}}
    spec = {"runPolicy": run_policy, "pytorchReplicaSpecs": specs}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "digits"}, "spec": spec}


def pod(name, phase, *, reason="", message=""):
    waiting = {"containerStatuses": [{"name": "pytorch", "state": {"waiting": {"reason": reason, "message": message}}}]}
    return {"metadata": {"name": name}, "status": {"phase": phase, **(waiting if reason else {})}}


def put(stage, names, phase="Pending", **why):
    for name in names:
        stage.put(pod(name, phase, **why))


def image_conditions(stage):
    return [each for each in stage.status()["conditions"] if each["type"] == "ImagesPulled"]


@pytest.mark.parametrize("run_policy", [{}, {"restartMode": "gang"}], ids=["members", "gang"])
def test_an_image_that_cannot_be_pulled_is_a_condition_until_it_is_there(run_policy):
    """The kubelet changes its reason and its message with each attempt; the condition stays."""
    stage = Stage(job(**run_policy))
    put(stage, NAMES[:1], "Running")
    put(stage, NAMES[1:], reason="ErrImagePull", message="not found: x")
    stage.turn(Timer())
    assert stage.gang.notes.needs_write
    named = "digits-worker-1, digits-worker-2, digits-worker-3 and 1 more pods"
    for _ in range(2):
        [found] = image_conditions(stage)
        assert (found["status"], found["reason"]) == ("False", "ErrImagePull")
        assert found["message"] == f"no image for container pytorch of {named}: not found: x"
        put(stage, NAMES[1:], reason="ImagePullBackOff", message="Back-off")
    put(stage, NAMES[1:], "Running")
    stage.turn(Timer())
    assert image_conditions(stage) == []


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing", "CrashLoopBackOff"])
def test_a_pod_that_waits_for_something_else_has_its_image(reason):
    stage = Stage(job())
    put(stage, NAMES, reason=reason)
    stage.turn(Timer())
    assert image_conditions(stage) == []
