"""What a bound pod takes of its node."""

import pytest
from cluster_objects import pod

from windlass.backends.kubernetes.cluster.pods import takes


def test_containers_add_up_and_a_pod_is_one_of_the_node_s_pods():
    asked = takes(
        pod(
            "web-0",
            """
            containers:
            - {name: a, resources: {requests: {cpu: 500m, memory: 1Gi}, limits: {nvidia.com/gpu: "2"}}}
            - {name: b, resources: {requests: {cpu: "1"}}}
            """,
        )
    )
    assert asked == {"cpu": 1500, "memory": 2**30, "nvidia.com/gpu": 2, "pods": 1}


def test_init_containers_sidecars_overhead_and_the_pod_s_own_requests():
    asked = takes(
        pod(
            "web-0",
            """
            overhead: {cpu: 250m}
            resources: {requests: {memory: 4Gi}}
            initContainers:
            - {name: mesh, restartPolicy: Always, resources: {requests: {cpu: "1", memory: 1Gi}}}
            - {name: fetch, resources: {requests: {cpu: "6", ephemeral-storage: 20Gi}}}
            containers:
            - {name: a, resources: {requests: {cpu: "2"}}}
            """,
        )
    )
    assert asked == {"cpu": 7250, "memory": 2**32, "ephemeral-storage": 20 * 2**30, "pods": 1}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_who_has_ended_takes_nothing(phase):
    assert takes(pod("job-0", "containers: [{name: a, resources: {requests: {cpu: '1'}}}]", phase)) == {}


def test_who_is_being_deleted_takes_it_all():
    leaving = pod("a", "containers: [{name: a}]", deletionTimestamp="2026-01-01T00:00:00Z")
    assert takes(leaving) == {"pods": 1}


def test_ports_of_the_node():
    ports = "{name: a, ports: [{containerPort: 80, hostPort: 8080}, {containerPort: 53, protocol: UDP}]}"
    assert takes(pod("a", f"containers: [{ports}]")) == {"hostport/8080": 1, "pods": 1}
    on_host = pod("a", f"{{hostNetwork: true, containers: [{ports}]}}")
    assert takes(on_host) == {"hostport/8080": 1, "hostport/53/udp": 1, "pods": 1}


def test_a_quantity_of_nonsense_counts_for_nothing():
    assert takes(pod("a", "containers: [{name: a, resources: {requests: {cpu: much, memory: '1'}}}]")) == {
        "memory": 1,
        "pods": 1,
    }
