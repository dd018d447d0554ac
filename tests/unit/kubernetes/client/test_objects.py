import gc
import json

import msgspec
import pytest

from windlass.backends.kubernetes.client import objects

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "train-worker-0",
        "namespace": "ns",
        "uid": "u",
        "resourceVersion": "17",
        "labels": {"app": "train"},
        "ownerReferences": [{"apiVersion": "windlass.dev/v1", "kind": "TrainingJob", "name": "train", "uid": "t"}],
        "managedFields": [{"manager": "kubectl"}],
    },
    "spec": {
        "nodeName": "n1",
        "schedulerName": "windlass",
        "containers": [
            {
                "name": "main",
                "image": "x",
                "resources": {"requests": {"cpu": "500m", "nvidia.com/gpu": "1"}},
                "ports": [{"containerPort": 1, "hostPort": 2, "hostIP": "10.0.0.1"}],
            }
        ],
        "initContainers": [{"name": "sidecar", "restartPolicy": "Always"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "tmp", "emptyDir": {}}],
        "schedulingGroup": {"podGroupName": "g"},
        "schedulingGates": [{"name": "wait"}],
    },
    "status": {
        "phase": "Failed",
        "podIP": "10.1.0.1",
        "hostIP": "10.0.0.1",
        "conditions": [{"type": "Ready", "status": "False", "lastProbeTime": None}],
        "containerStatuses": [
            {"name": "main", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}, "restartCount": 2}
        ],
    },
}


def test_a_pod_is_decoded_with_the_fields_a_scheduler_uses():
    pod = objects.pod(json.dumps(POD).encode())
    assert (pod.metadata.name, pod.metadata.labels, pod.metadata.annotations) == (
        "train-worker-0",
        {"app": "train"},
        {},
    )
    assert pod.metadata.owner_references[0].kind == "TrainingJob"
    main = pod.spec.containers[0]
    assert main.resources.requests == {"cpu": "500m", "nvidia.com/gpu": "1"}
    assert (main.ports[0].host_port, main.ports[0].host_ip, main.ports[0].protocol) == (2, "10.0.0.1", "TCP")
    assert pod.spec.init_containers[0].restart_policy == "Always"
    assert [
        volume.persistent_volume_claim and volume.persistent_volume_claim.claim_name for volume in pod.spec.volumes
    ] == [
        "c",
        None,
    ]
    assert pod.spec.scheduling_group is not None
    assert (pod.spec.scheduling_group.pod_group_name, pod.spec.scheduling_gates[0].name) == ("g", "wait")
    status = pod.status.container_statuses[0]
    assert status.state.terminated is not None
    assert (status.state.terminated.exit_code, status.state.terminated.reason, status.restart_count) == (
        137,
        "OOMKilled",
        2,
    )
    assert (pod.status.phase, pod.status.pod_ip, pod.status.conditions[0].status) == ("Failed", "10.1.0.1", "False")


def test_common_parts_of_pods_are_stored_once():
    one, other = (objects.pod(json.dumps(POD).encode()) for _ in range(2))
    assert one.spec.tolerations is other.spec.tolerations
    assert one.spec.node_name is other.spec.node_name
    assert one.spec.containers[0].resources.requests is other.spec.containers[0].resources.requests
    assert one.metadata.labels["app"] is other.metadata.labels["app"]
    assert one.status.conditions[0].type is other.status.conditions[0].type
    assert not gc.is_tracked(one)


def test_a_node_is_decoded_with_the_fields_a_scheduler_uses():
    node = objects.node(
        b'{"metadata":{"name":"n1","uid":"u","resourceVersion":"3","labels":{"rack":"r1"}},'
        b'"spec":{"unschedulable":true,"taints":[{"key":"gpu","effect":"NoSchedule"}]},'
        b'"status":{"allocatable":{"cpu":"8"},"addresses":[{"type":"InternalIP","address":"10.0.0.1"}]}}'
    )
    assert (node.spec.unschedulable, node.spec.taints[0].key) == (True, "gpu")
    assert (node.status.allocatable, node.status.addresses[0].address) == ({"cpu": "8"}, "10.0.0.1")


METADATA = b'"metadata":{"name":"x","namespace":"ns","uid":"u","resourceVersion":"1"}'


def test_the_other_objects_are_decoded():
    claim = objects.claim(b'{%s,"spec":{"volumeName":"v"},"status":{"phase":"Bound"}}' % METADATA)
    assert (claim.spec.volume_name, claim.status.phase) == ("v", "Bound")
    volume = objects.volume(b'{%s,"spec":{"nodeAffinity":{"required":{}}}}' % METADATA)
    assert volume.spec.node_affinity == {"required": {}}
    assert objects.priority_class(b'{%s,"value":-5}' % METADATA).value == -5
    assert objects.namespace(b'{%s,"status":{"phase":"Terminating"}}' % METADATA).status.phase == "Terminating"


def test_stored_objects_are_immutable():
    pod = objects.pod(json.dumps(POD).encode())
    with pytest.raises(AttributeError):
        pod.spec.node_name = "n2"


@pytest.mark.parametrize("body", [b"[]", b"{}", b'{"metadata":{}}', b'{%s,"spec":[]}' % METADATA, b"\xff", b""])
def test_a_malformed_pod_is_a_decoding_error(body):
    with pytest.raises((msgspec.MsgspecError, ValueError)):
        objects.pod(body)
