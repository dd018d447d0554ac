"""Usage of a node by a bound pod."""

import pytest
from cluster_objects import pod

from windlass.backends.kubernetes.cluster.pods import pod_usage


def test_containers_add_up_and_a_pod_counts_as_a_pod_of_its_node():
    asked = pod_usage(
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
    asked = pod_usage(
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
def test_an_ended_pod_takes_nothing(phase):
    assert pod_usage(pod("job-0", "containers: [{name: a, resources: {requests: {cpu: '1'}}}]", phase)) == {}


def test_a_pod_that_is_being_deleted_takes_all_its_requests():
    leaving = pod("a", "containers: [{name: a}]", deletionTimestamp="2026-01-01T00:00:00Z")
    assert pod_usage(leaving) == {"pods": 1}


def test_host_ports_are_resources_of_the_node():
    ports = "{name: a, ports: [{containerPort: 80, hostPort: 8080}, {containerPort: 53, protocol: UDP}]}"
    assert pod_usage(pod("a", f"containers: [{ports}]")) == {"hostport/8080": 1, "pods": 1}
    on_host = pod("a", f"{{hostNetwork: true, containers: [{ports}]}}")
    assert pod_usage(on_host) == {"hostport/8080": 1, "hostport/53/udp": 1, "pods": 1}


def test_an_invalid_quantity_counts_as_zero():
    assert pod_usage(pod("a", "containers: [{name: a, resources: {requests: {cpu: much, memory: '1'}}}]")) == {
        "memory": 1,
        "pods": 1,
    }
