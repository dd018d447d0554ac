"""Topology levels of a cluster, and the domains of a node."""

from windlass.backends.kubernetes.cluster.topology_levels import level_named, levels_of, place, topology

KUEUE = {"cloud.provider.com/topology-block": "b1", "cloud.provider.com/topology-rack": "r2"}
GKE = {
    "topology.kubernetes.io/zone": "europe-west4-a",
    "cloud.google.com/gce-topology-block": "b7",
    "cloud.google.com/gce-topology-subblock": "s3",
    "kubernetes.io/hostname": "gke-1",
}
EKS = {
    "topology.k8s.aws/network-node-layer-1": "nn-1",
    "topology.k8s.aws/network-node-layer-2": "nn-2",
    "topology.k8s.aws/network-node-layer-3": "nn-3",
}


def test_levels_are_those_of_the_node_labels():
    assert topology(levels_of([])).levels == ("host",)
    assert topology(levels_of([{"color": "red"}, KUEUE])).levels == ("block", "rack", "host")
    assert topology(levels_of([EKS])).levels == ("fabric", "block", "rack", "host")
    assert topology(levels_of([GKE, {"nvidia.com/gpu.clique": "c.1"}])).levels == (
        "zone",
        "block",
        "rack",
        "nvlink",
        "host",
    )


def test_a_node_has_a_domain_at_each_level():
    levels = levels_of([KUEUE, GKE])
    assert place(levels, "n1", KUEUE) == ("", "b1", "r2", "n1")
    assert place(levels, "n2", GKE) == ("europe-west4-a", "b7", "s3", "gke-1")


def test_our_own_labels_override_those_of_a_cloud():
    labels = {**KUEUE, "topology.windlass.dev/rack": "mine"}
    assert place(levels_of([labels]), "n1", labels) == ("b1", "mine", "n1")


def test_a_level_is_found_by_its_labels():
    levels = levels_of([GKE])
    assert level_named(levels, "cloud.google.com/gce-topology-subblock") == "rack"
    assert level_named(levels, "rack") == "rack"
    assert level_named(levels, "row") == "row"
