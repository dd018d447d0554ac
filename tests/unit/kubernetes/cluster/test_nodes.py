"""Nodes as the core has them."""

import pytest
from cluster_objects import node as an_object

from windlass.backends.kubernetes.cluster.nodes import CORDONED, NodeConversion, is_same_to_core, node
from windlass.backends.kubernetes.cluster.topology_levels import levels_of
from windlass.core.model.node import Taint

DGX = "{cpu: '112', memory: 1Ti, nvidia.com/gpu: '8', pods: '110', ephemeral-storage: 1Gi, hugepages-2Mi: '0'}"


def test_usage_of_foreign_pods_is_subtracted_from_a_node():
    seen = node(an_object("n1", DGX), {"cpu": 2500, "nvidia.com/gpu": 3, "pods": 9, "memory": 2**50}, NodeConversion())
    assert seen.capacity == {
        "cpu": 109_500,
        "memory": 0,
        "gpu": 5,
        "pods": 101,
        "ephemeral-storage": 2**30,
    }


@pytest.mark.parametrize(
    ("allocatable", "capacity", "kind"),
    [
        ("{amd.com/gpu: '8'}", {"gpu": 8}, "amd.com/gpu"),
        ("{habana.ai/gaudi: '8'}", {"gpu": 8}, "habana.ai/gaudi"),
        ("{gpu.intel.com/i915: '1', nvidia.com/gpu: '4'}", {"gpu": 4}, "nvidia.com/gpu"),
        ("{nvidia.com/mig-1g.10gb: '7'}", {"mig-1g.10gb": 7}, "nvidia.com/gpu"),
        (
            "{nvidia.com/gpu.shared: '16', rdma/hca: '1k'}",
            {"nvidia.com/gpu.shared": 16, "rdma/hca": 1000},
            "nvidia.com/gpu",
        ),
        ("{cpu: '4', attachable-volumes-aws-ebs: '39'}", {"cpu": 4000}, "nvidia.com/gpu"),
    ],
)
def test_devices_have_the_names_of_the_core(allocatable, capacity, kind):
    seen = node(an_object("n1", allocatable), {}, NodeConversion())
    assert seen.capacity == capacity
    assert seen.labels["windlass.dev/gpu"] == kind


def test_host_ports_that_other_pods_hold_are_in_use():
    seen = node(an_object("n1", "{cpu: '1'}"), {"hostport/9090": 1, "hostport/8080": 1, "pods": 2}, NodeConversion())
    assert seen.capacity == {"cpu": 1000}
    assert seen.exclusive_in_use == ("hostport/8080", "hostport/9090")


@pytest.mark.parametrize(
    ("labels", "model"),
    [
        (
            "{nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3, cloud.google.com/gke-accelerator: nvidia-h100}",
            "NVIDIA-H100-80GB-HBM3",
        ),
        ("{cloud.google.com/gke-tpu-accelerator: tpu-v5p-slice}", "tpu-v5p-slice"),
        ("{gpu-type: H100, nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}", "H100"),
        ("{}", None),
    ],
)
def test_the_gpu_model_is_read_from_the_usual_labels(labels, model):
    assert node(an_object("n1", DGX, labels), {}, NodeConversion()).labels.get("gpu-type") == model


def test_a_node_has_its_name_and_topology_domains():
    seen = an_object("n1", DGX, "{cloud.provider.com/topology-rack: r7, kubernetes.io/hostname: host-1}")
    core = node(seen, {}, NodeConversion(levels_of([seen.metadata.labels])))
    assert core.place == ("r7", "host-1")
    assert core.labels["metadata.name"] == "n1"


def test_taints_that_repel_pods_are_kept():
    taints = """
    - {key: nvidia.com/gpu, value: present, effect: NoSchedule}
    - {key: slow, effect: PreferNoSchedule}
    - {key: node.kubernetes.io/disk-pressure, effect: NoSchedule}
    """
    assert node(an_object("n1", DGX, taints=taints), {}, NodeConversion()).taints == (
        Taint("nvidia.com/gpu", "present", "NoSchedule"),
        Taint("node.kubernetes.io/disk-pressure", "", "NoSchedule"),
    )


@pytest.mark.parametrize("ready", ["False", "Unknown", ""])
def test_a_node_that_is_down_has_no_other_state(ready):
    taints = "[{key: node.kubernetes.io/unreachable, effect: NoExecute}]"
    core = node(an_object("n1", DGX, taints=taints, ready=ready), {}, NodeConversion())
    assert not core.ready
    assert not core.taints


def test_a_cordoned_node_has_the_reason():
    taints = "[{key: node.kubernetes.io/unschedulable, effect: NoSchedule}]"
    plain = node(an_object("n1", DGX, taints=taints, unschedulable=True), {}, NodeConversion())
    assert plain.cordoned == "cordoned in the cluster; kubectl uncordon takes it back"
    assert not plain.taints
    node_object = an_object("n1", DGX, unschedulable=True, annotations={CORDONED: "Xid 79"})
    assert node(node_object, {}, NodeConversion()).cordoned == "Xid 79"
    assert (
        node(an_object("n1", DGX, deletionTimestamp="2026-01-01T00:00:00Z"), {}, NodeConversion()).cordoned
        == "being deleted"
    )


def test_a_heartbeat_changes_nothing():
    before = an_object("n1", DGX)
    assert is_same_to_core(before, an_object("n1", DGX, resourceVersion="2"))
    assert not is_same_to_core(before, an_object("n1", DGX, "{a: b}"))
    assert not is_same_to_core(before, an_object("n1", DGX, ready="Unknown"))
    assert not is_same_to_core(before, an_object("n1", DGX, unschedulable=True))
    assert not is_same_to_core(before, an_object("n1", "{cpu: '1'}"))
