"""Jobs whose pods another scheduler places: their fit, their books and their nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import yaml
from member_stage import Stage

from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.cluster.job_resolution import NamespaceLookups
from windlass.backends.kubernetes.jobs.job_fit import fit_job
from windlass.backends.kubernetes.status.member_waits import member_wait
from windlass.core.lifecycle import events as e
from windlass.core.model.status import Phase, Placement
from windlass.jobs.kubernetes.foreign_schedulers import parse_scheduler_rules
from windlass.jobs.kubernetes.kinds import registry
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.jobs.kubernetes.settings import Settings

JOB = yaml.safe_load("""
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: digits, namespace: ml, uid: u}
spec:
  elasticPolicy: {minReplicas: 1, maxReplicas: 4}
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      restartPolicy: OnFailure
      template:
        spec:
          schedulerName: volcano
          nodeSelector: {zone: a}
          tolerations: [{key: gpu, operator: Exists}]
          containers: [{name: pytorch, image: i, ports: [{containerPort: 23456, hostPort: 8080}]}]
""")


def fitted(rules: str) -> Any:
    parsed = registry.read(JOB, Settings(foreign_schedulers=parse_scheduler_rules(rules)))
    assert isinstance(parsed, ParsedJob), parsed
    return fit_job(parsed, NamespaceLookups())


def stage() -> Stage:
    """A job that was just admitted; its pods are bound to nothing."""
    made = Stage(JOB)
    job = fitted("").job
    blank = Placement({"worker": ("", "")})
    made.gang.job = job
    made.state = replace(
        made.state,
        job=job,
        status=replace(made.state.status, phase=Phase.ADMITTED, placement=blank, running_since=None),
    )
    made.run.slots = tuple(replace(slot, node="") for slot in made.run.slots)
    made.run.track()
    return made


def put(
    on: Stage, number: int, phase: str, node: str = "", uid: str = "", code: int | None = None, **more: Any
) -> None:
    """Sets a pod; `more`: fields of its status."""
    ended = {} if code is None else {"state": {"terminated": {"exitCode": code, "reason": "Error"}}}
    status = {"phase": phase, "containerStatuses": [{"name": "pytorch", "restartCount": 0, **ended}], **more}
    name = f"digits-worker-{number}"
    manifest = {"metadata": {"name": name}, "spec": {"nodeName": node, "schedulerName": "volcano"}, "status": status}
    on.put(manifest, uid=uid)


def placed(on: Stage) -> tuple[str, ...]:
    assert on.state.status.placement is not None
    return on.state.status.placement.nodes["worker"]


def test_a_respected_job_is_for_its_quota_alone() -> None:
    found = fitted("")
    (role,) = found.job.roles
    assert (found.trouble, found.job.placed_by, found.job.start_timeout) == ("", "volcano", None)
    assert (role.replicas, role.elastic, role.node_selector, role.tolerations) == (2, False, {}, ())
    assert not [name for name in role.resources if name.startswith(("hostport/", "apart/"))]


def test_an_adopted_job_keeps_its_constraints() -> None:
    found = fitted("volcano=adopt")
    (role,) = found.job.roles
    assert (found.trouble, found.job.placed_by, role.node_selector) == ("", "", {"zone": "a"})


def test_a_refused_job_waits_with_the_reason() -> None:
    found = fitted("*=refuse")
    assert found.trouble == found.job.hold
    assert found.trouble.startswith("its pods name the scheduler volcano, which this installation refuses")


def test_the_nodes_are_reported_once_all_pods_are_bound() -> None:
    on = stage()
    put(on, 0, "Pending", "n1")
    put(on, 1, "Pending")
    on.turn()
    assert placed(on) == ("", "")
    put(on, 1, "Pending", "n2")
    on.turn()
    assert placed(on) == ("n1", "n2")
    put(on, 0, "Running", "n1")
    put(on, 1, "Running", "n2")
    on.turn()
    assert on.state.status.phase is Phase.RUNNING


def test_its_pods_are_usage_by_others_before_they_are_reported_and_after() -> None:
    on = stage()
    put(on, 0, "Pending", "n1")
    put(on, 1, "Pending", "n2")

    def held() -> list[Any]:
        pods: list[Pod] = list(on.run.pods.all())
        return [on.gang.held_of(pod) for pod in pods]

    assert held() == [None, None]
    on.turn()
    assert held() == [None, None]


def test_a_member_that_restarts_alone_may_go_to_another_node() -> None:
    on = stage()
    for phase in ("Pending", "Running"):
        put(on, 0, phase, "n1")
        put(on, 1, phase, "n2")
        on.turn()
    on.closed = {"n1", "n2"}
    put(on, 1, "Failed", "n2", code=137)
    on.turn()
    assert on.executor.deleted == ["digits-worker-1"]
    on.remove("digits-worker-1")
    on.turn()
    assert (on.executor.created, placed(on)) == (["digits-worker-1"], ("n1", "n2"))
    put(on, 1, "Pending", uid="next")
    on.turn()
    assert placed(on) == ("n1", "n2")
    put(on, 1, "Running", "n3", uid="next")
    on.turn()
    assert placed(on) == ("n1", "n3")


def test_the_loss_of_a_chosen_node_restarts_the_gang() -> None:
    on = stage()
    for phase in ("Pending", "Running"):
        put(on, 0, phase, "n1")
        put(on, 1, phase, "n2")
        on.turn()
    on.turn(e.NodeLost("n2"))
    assert on.state.status.phase is Phase.RESTARTING
    assert sorted(on.executor.deleted) == ["digits-worker-0", "digits-worker-1"]


def test_pods_that_are_not_placed_wait_for_their_scheduler_with_its_reason() -> None:
    on = stage()
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available"}
    put(on, 0, "Pending", "n1")
    put(on, 1, "Pending", conditions=[said])
    wait = member_wait(on.gang)
    assert wait == ("NotPlaced", "volcano has not placed 1 of 2 pods: 0/3 nodes are available")
    put(on, 1, "Pending", "n2")
    assert member_wait(on.gang) is None


def test_pods_wait_for_an_image_that_cannot_be_pulled() -> None:
    on = stage()
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "no such image i"}}
    put(on, 0, "Pending", "n1", containerStatuses=[{"name": "pytorch", "restartCount": 0, "state": waiting}])
    put(on, 1, "Pending", "n2")
    assert member_wait(on.gang) == (
        "ErrImagePull",
        "no image for container pytorch of digits-worker-0: no such image i",
    )
