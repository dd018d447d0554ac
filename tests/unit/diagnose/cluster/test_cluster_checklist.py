"""Checks of a cluster: a healthy one, one fault at a time, and callers who may see little."""

from __future__ import annotations

import pytest
from checked_objects import ago, check, faults, node, plugin, pod, waiting

from windlass.diagnose.steps import State

HEALTHY = {
    "nodes": [node("n1", 8), node("n2", 8)],
    "pods": [plugin("n1"), plugin("n2"), pod("train-0", on="n1", gpus=4)],
    "leases_coordination_k8s_io": [
        {
            "metadata": {"namespace": "kube-system", "name": "kube-scheduler"},
            "spec": {"renewTime": ago(seconds=2), "holderIdentity": "cp1"},
        }
    ],
}


def changed(**objects):
    return check(**{**HEALTHY, **objects})


def pods(*more):
    return {"pods": [*HEALTHY["pods"], *more]}


def test_a_healthy_cluster_has_no_fault():
    steps = check(**HEALTHY)
    assert faults(steps) == {}
    assert steps["pool.ready:a"].text == "2 nodes are ready"
    assert steps["pool.allocatable:a"].text == "16 × nvidia.com/gpu"
    assert steps["queue.demand:gpu"].text == "12 of 16 free, waiting pods request 0"
    assert steps["scheduler.lease"].text == "held by cp1"


def test_a_cluster_without_gpus_is_told_what_is_absent():
    steps = check(nodes=[node("n1")], pods=[])
    assert faults(steps) == {}
    assert steps["pool.gpus:a"].state is State.ABSENT
    assert steps["queue.demand"].text == "no node offers and no pod requests a GPU"


POOL_FAULTS = [
    ("pool.ready:a", [node("n1", 8), node("n2", 8, ready="Unknown")], "n2: not ready, Why: text"),
    ("pool.allocatable:a", [node("n1", 8), node("n2", 8, offered=7)], "n2: nvidia.com/gpu 7 of 8"),
    (
        "pool.mig:a",
        [node("n1", 8), node("n2", 8, labels={"nvidia.com/mig.config.state": "failed"})],
        "n2: failed",
    ),
]


@pytest.mark.parametrize(("name", "nodes", "line"), POOL_FAULTS)
def test_a_fault_of_a_node_is_found(name, nodes, line):
    steps = changed(nodes=nodes)
    assert faults(steps) == {name: State.WRONG}
    assert steps[name].evidence == (line,)


def test_nodes_whose_driver_does_not_work_offer_nothing():
    steps = changed(nodes=[node("n1", 8), node("n2", 8, offered=0)])
    assert steps["pool.allocatable:a"].evidence == ("n2: has GPUs by its labels, offers none",)


def test_cordoned_nodes_and_mixed_versions_are_warnings():
    steps = changed(nodes=[node("n1", 8), node("n2", 8, spec={"unschedulable": True}, system={"kernelVersion": "6.9"})])
    assert faults(steps) == {"pool.ready:a": State.WARNING, "pool.runtime:a": State.WARNING}
    assert steps["pool.runtime:a"].evidence == ("kernelVersion: 1 × 6.8, 1 × 6.9",)


def test_a_device_plugin_that_is_not_ready_is_named():
    steps = changed(pods=[plugin("n1"), plugin("n2", ready=False)])
    assert steps["pool.device_plugin:a"].evidence == ("n2: nvidia-device-plugin-n2: Running",)


def test_gpus_that_nothing_announces_need_a_plugin_or_dra():
    bare = [node("n1", 8, offered=0)]
    assert check(nodes=bare, pods=[])["pool.device_plugin:a"].state is State.WRONG
    published = {"spec": {"driver": "gpu.nvidia.com", "nodeName": "n1", "devices": [{}]}}
    steps = check(
        nodes=[node("n1", labels={"nvidia.com/gpu.present": "true"})], resourceslices_resource_k8s_io=[published]
    )
    assert faults(steps) == {"pool.device_classes": State.WRONG}
    assert steps["pool.device_plugin:a"].text == "DRA on 1, of 1 GPU nodes"
    selecting = {"metadata": {"name": "gpu.nvidia.com"}, "spec": {}}
    both = {"resourceslices_resource_k8s_io": [published], "deviceclasses_resource_k8s_io": [selecting]}
    assert faults(check(nodes=[node("n1", labels={"nvidia.com/gpu.present": "true"})], **both)) == {}


POD_FAULTS = [
    (
        "image",
        pod("p", on="n1", phase="Pending", status=waiting("ImagePullBackOff", "no tag")),
        "ImagePullBackOff: no tag",
    ),
    (
        "config",
        pod("p", on="n1", phase="Pending", status=waiting("CreateContainerConfigError")),
        "CreateContainerConfigError",
    ),
    (
        "crash",
        pod(
            "p",
            on="n1",
            status=waiting("CrashLoopBackOff", restartCount=7, lastState={"terminated": {"exitCode": 134}}),
        ),
        "container main, 7 restarts, last exit code 134",
    ),
    (
        "creating",
        pod(
            "p",
            phase="Pending",
            spec={"nodeName": "n1"},
            status={
                **waiting("ContainerCreating"),
                "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": ago(minutes=15)}],
            },
        ),
        "ContainerCreating for 15 minutes on n1",
    ),
    (
        "terminating",
        pod("p", on="n1", metadata={"deletionTimestamp": ago(minutes=20), "finalizers": ["x/y"]}),
        "should have ended 20 minutes ago, finalizers x/y",
    ),
    ("unscheduled", pod("p", phase="Pending", spec={"schedulerName": "typo"}), "schedulerName typo"),
    (
        "refused",
        pod("p", on="n1", phase="Failed", status={"reason": "UnexpectedAdmissionError", "message": "devices"}),
        "UnexpectedAdmissionError: devices",
    ),
]


@pytest.mark.parametrize(("reason", "stuck", "line"), POD_FAULTS)
def test_a_stuck_pod_is_reported_with_its_reason(reason, stuck, line):
    steps = changed(**pods(stuck))
    assert faults(steps) == {f"pods.{reason}": State.WRONG}
    assert steps[f"pods.{reason}"].evidence == (f"team/p: {line}",)


def test_claims_that_pods_wait_for_are_named():
    volumes = [{"persistentVolumeClaim": {"claimName": name}} for name in ("bound", "unbound", "missing")]
    phases = {"bound": "Bound", "unbound": "Pending", "unused": "Pending"}
    claims = [{"metadata": {"name": n, "namespace": "team"}, "status": {"phase": p}} for n, p in phases.items()]
    steps = changed(persistentvolumeclaims=claims, **pods(pod("p", on="n1", spec={"volumes": volumes})))
    assert faults(steps) == {"pods.claims": State.WARNING}
    assert steps["pods.claims"].evidence == ("team/p: team/missing does not exist", "team/p: team/unbound is not bound")


def test_pods_behind_a_gate_are_a_warning():
    gated = pod("p", phase="Pending", spec={"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]})
    assert faults(changed(**pods(gated))) == {"pods.gated": State.WARNING}


def unschedulable(name, gpus):
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"}
    return pod(name, phase="Pending", gpus=gpus, status={"conditions": [condition]})


def test_demand_that_never_fits_is_told_from_demand_that_waits():
    waits = changed(**pods(unschedulable("a", 8), unschedulable("b", 8)))
    assert waits["queue.demand:gpu"].state is State.WARNING
    assert waits["queue.demand:gpu"].text == "12 of 16 free, waiting pods request 16: they wait until others end"
    assert waits["scheduler.unschedulable"].evidence == ("2 pods, such as team/a: 0/2 nodes",)
    never = changed(**pods(unschedulable("a", 16)))["queue.demand:gpu"]
    assert (never.state, never.text[:56]) == (State.WRONG, "a waiting pod requests 16, the largest node has 8: it ne")


def test_devices_of_cordoned_and_unready_nodes_are_not_free():
    cordoned, lost = node("n3", 8, spec={"unschedulable": True}), node("n4", 8, ready="Unknown")
    nodes = [*HEALTHY["nodes"], cordoned, lost]
    steps = changed(nodes=nodes, **pods(unschedulable("a", 8), unschedulable("b", 8), pod("c", on="n3", gpus=2)))
    assert steps["queue.demand:gpu"].state is State.WARNING
    assert steps["queue.demand:gpu"].text.startswith("12 of 16 free, 16 more on cordoned or unready nodes, waiting")


def test_taints_of_kubernetes_itself_are_not_those_to_tolerate():
    taints = [
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        {"key": "team", "effect": "NoExecute"},
    ]
    steps = changed(nodes=[node("n1", 8, spec={"taints": taints})])
    assert steps["pool.taints:a"].text == "pods must tolerate team=:NoExecute"


def test_a_scheduler_that_lost_its_lease_does_not_work():
    (lease,) = HEALTHY["leases_coordination_k8s_io"]
    late = {**lease, "spec": {"renewTime": ago(minutes=5)}}
    assert faults(changed(leases_coordination_k8s_io=[late])) == {"scheduler.lease": State.WRONG}


def test_queues_that_admit_nothing_are_named():
    condition = {"type": "Active", "status": "False", "reason": "FlavorNotFound", "message": "no flavor h100"}
    queue = {"metadata": {"name": "lab"}, "status": {"conditions": [condition]}}
    local = {"metadata": {"name": "l", "namespace": "team"}, "spec": {"clusterQueue": "gone"}}
    steps = changed(clusterqueues_kueue_x__k8s_io=[queue], localqueues_kueue_x__k8s_io=[local])
    assert steps["queue.kueue"].evidence == (
        "lab: FlavorNotFound: no flavor h100",
        "team/l: its ClusterQueue gone does not exist",
    )
    closed = {"metadata": {"name": "v"}, "status": {"state": "Closed"}}
    assert faults(changed(queues_scheduling_volcano_sh=[closed])) == {"queue.volcano": State.WARNING}
    lost = {"metadata": {"name": "w"}, "spec": {"parent": "gone"}}
    assert faults(changed(queues_windlass_dev=[lost])) == {"queue.windlass": State.WRONG}


def test_quotas_that_are_used_up_are_named():
    status = {
        "hard": {"requests.nvidia.com/gpu": "8", "cpu": "100"},
        "used": {"requests.nvidia.com/gpu": "8", "cpu": "1"},
    }
    step = changed(resourcequotas=[{"metadata": {"name": "q", "namespace": "team"}, "status": status}])["queue.quotas"]
    assert (step.state, step.evidence) == (State.WARNING, ("team/q: requests.nvidia.com/gpu 8 of 8",))


def test_a_deployment_whose_pods_a_quota_refuses_is_named():
    message = 'pods "web-1" is forbidden: exceeded quota: q'
    condition = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}
    web = {"metadata": {"name": "web", "namespace": "team"}, "status": {"conditions": [condition]}}
    quota = {"metadata": {"name": "q", "namespace": "team"}, "status": {"hard": {"pods": "9"}, "used": {"pods": "8"}}}
    step = changed(resourcequotas=[quota], deployments_apps=[web])["queue.quotas"]
    assert (step.state, step.evidence) == (State.WARNING, (f"team/web: {message}",))


def test_a_device_plugin_that_selects_no_node_is_named_if_gpus_are_missing():
    plugin_set = {
        "metadata": {"name": "nvidia-device-plugin-daemonset", "namespace": "kube-system"},
        "status": {"desiredNumberScheduled": 0, "numberAvailable": 0},
    }
    assert changed(daemonsets_apps=[plugin_set])["operator.device-plugin"].state is State.OK
    missing = changed(nodes=[node("n1", 8, offered=0)], daemonsets_apps=[plugin_set])["operator.device-plugin"]
    assert missing.evidence == ("kube-system/nvidia-device-plugin-daemonset: selects no node",)


def test_operators_that_lack_pods_are_named():
    healthy = {
        "metadata": {"name": "kueue-controller-manager", "namespace": "kueue-system"},
        "spec": {"replicas": 1},
        "status": {"availableReplicas": 1},
    }
    broken = {
        "metadata": {"name": "nvidia-driver-daemonset", "namespace": "gpu-operator"},
        "status": {"desiredNumberScheduled": 2, "numberAvailable": 1},
    }
    policy = {"metadata": {"name": "cluster-policy"}, "status": {"state": "notReady"}}
    steps = changed(deployments_apps=[healthy], daemonsets_apps=[broken], clusterpolicies_nvidia_com=[policy])
    assert faults(steps) == {"operator.gpu-operator": State.WRONG, "operator.clusterpolicy": State.WRONG}
    assert steps["operator.gpu-operator"].evidence == ("gpu-operator/nvidia-driver-daemonset: 1 of 2 available",)
    assert steps["operator.kueue"].state is State.OK


def test_objects_that_may_not_be_listed_are_not_judged():
    steps = check(refused=("nodes", "pods", "deployments.apps", "resourcequotas", "clusterqueues.kueue.x-k8s.io"))
    assert faults(steps) == {}
    unseen = {name for name, step in steps.items() if step.state is State.UNSEEN}
    assert {"access.nodes", "access.pods", "pool.nodes", "queue.demand", "pods.stuck", "operator.workloads"} <= unseen


def test_one_namespace_does_not_prove_that_a_plugin_is_missing():
    steps = check(namespace="team", nodes=[node("n1", 8, offered=0)], pods=[])
    assert steps["pool.device_plugin:a"].state is State.UNSEEN
    assert steps["access.namespaces"].text == "only objects of the namespace team could be listed"


@pytest.mark.parametrize(
    "odd", [{}, {"metadata": None}, {"status": []}, {"spec": {"containers": "x"}, "status": {"conditions": [1]}}]
)
def test_objects_of_any_shape_are_read_without_a_crash(odd):
    kinds = ("nodes", "pods", "resourcequotas", "leases_coordination_k8s_io", "daemonsets_apps", "deployments_apps")
    kinds += ("resourceslices_resource_k8s_io", "clusterpolicies_nvidia_com", "clusterqueues_kueue_x__k8s_io")
    assert check(**{kind: [odd] for kind in kinds})
