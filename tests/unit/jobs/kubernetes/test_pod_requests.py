"""Requests and placement constraints of a pod."""

import pytest
import yaml

from windlass.core.model.job import Match, Toleration
from windlass.jobs.kubernetes.manifest_reader import ManifestError, ManifestField
from windlass.jobs.kubernetes.pods.pod_placement import affinity_of, tolerations_of
from windlass.jobs.kubernetes.pods.pod_requests import pod_requests
from windlass.jobs.kubernetes.pods.quantities import amount


def spec(text):
    return ManifestField(yaml.safe_load(text))


def test_containers_add_up():
    asked = pod_requests(
        spec("""
        containers:
        - resources: {requests: {cpu: 1500m, memory: 1Gi}, limits: {nvidia.com/gpu: 2}}
        - resources: {requests: {cpu: 1}}
        """)
    )
    assert asked == {"cpu": 2500, "memory": 2**30, "gpu": 2}


def test_a_limit_alone_is_a_request():
    assert pod_requests(spec("containers: [{resources: {limits: {cpu: 2}, requests: {cpu: 1, memory: 5}}}]")) == {
        "cpu": 1000,
        "memory": 5,
    }


def test_init_containers_run_one_after_another_before_the_others():
    asked = pod_requests(
        spec("""
        initContainers:
        - resources: {requests: {cpu: 3, memory: 10}}
        - resources: {requests: {cpu: 1, memory: 90}}
        containers:
        - resources: {requests: {cpu: 2, memory: 50}}
        """)
    )
    assert asked == {"cpu": 3000, "memory": 90}


def test_a_sidecar_runs_beside_all_that_comes_after_it():
    asked = pod_requests(
        spec("""
        initContainers:
        - resources: {requests: {cpu: 4}}
        - {restartPolicy: Always, resources: {requests: {cpu: 1}}}
        - resources: {requests: {cpu: 4}}
        containers:
        - resources: {requests: {cpu: 3}}
        """)
    )
    assert asked == {"cpu": 5000}  # the sidecar and the init container after it


def test_overhead_is_added_and_pod_level_requests_cover_all_containers():
    asked = pod_requests(
        spec("""
        overhead: {cpu: 250m}
        resources: {requests: {cpu: 8}}
        containers: [{resources: {requests: {cpu: 1, memory: 7}}}]
        """)
    )
    assert asked == {"cpu": 8250, "memory": 7}


@pytest.mark.parametrize(
    ("resource", "name"),
    [
        ("nvidia.com/gpu", "gpu"),
        ("amd.com/gpu", "gpu"),
        ("gpu.intel.com/xe", "gpu"),
        ("habana.ai/gaudi", "gpu"),
        ("nvidia.com/mig-1g.10gb", "mig-1g.10gb"),
        ("nvidia.com/mig-9g.1tb", "nvidia.com/mig-9g.1tb"),  # of a model that is not known yet
        ("nvidia.com/gpu.shared", "nvidia.com/gpu.shared"),
        ("rdma/hca", "rdma/hca"),
    ],
)
def test_devices_have_the_names_of_the_core(resource, name):
    assert pod_requests(ManifestField({"containers": [{"resources": {"limits": {resource: "1"}}}]})) == {name: 1}


def test_a_host_port_is_a_resource_of_which_a_node_has_one():
    ports = "containers: [{ports: [{containerPort: 80, hostPort: 8080}, {containerPort: 53, protocol: UDP}]}]"
    assert pod_requests(spec(ports)) == {"hostport/8080": 1}
    assert pod_requests(spec(ports + "\nhostNetwork: true")) == {"hostport/8080": 1, "hostport/53/udp": 1}


@pytest.mark.parametrize(
    ("resource", "text", "count"),
    [
        ("cpu", "100m", 100),
        ("cpu", 0.5, 500),
        ("cpu", "1u", 1),
        ("memory", "1.5Gi", 3 * 2**29),
        ("memory", "1e3", 1000),
        ("memory", "128974848000m", 128974848),
        ("memory", "1E", 10**18),
        ("gpu", "2", 2),
        ("gpu", "2e0", 2),
        ("memory", "9999Ei", 2**53),
        ("ephemeral-storage", "1.1", 2),
    ],
)
def test_quantities_are_read_as_an_api_server_reads_them(resource, text, count):
    assert amount(resource, text) == min(count, 2**53)


@pytest.mark.parametrize("text", ["", "two", "1GiB", "-1", True, None, "1e999", [], "1.5.0"])
def test_malformed_quantities_are_refused(text):
    with pytest.raises(ValueError, match="is no amount of memory"):
        amount("memory", text)


def test_half_a_device_is_refused_with_its_place():
    with pytest.raises(ManifestError, match=r"containers\[0\].resources.limits.nvidia.com/gpu: expects a whole number"):
        pod_requests(ManifestField({"containers": [{"resources": {"limits": {"nvidia.com/gpu": "500m"}}}]}))


def test_required_terms_of_affinity_are_read():
    terms = affinity_of(
        spec("""
        affinity:
          nodeAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
              nodeSelectorTerms:
              - matchExpressions: [{key: zone, operator: In, values: [a, b]}]
              - matchFields: [{key: metadata.name, operator: In, values: [n1]}]
        """)
    )
    assert terms == ((Match("zone", "In", ("a", "b")),), (Match("metadata.name", "In", ("n1",)),))


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ("[]", "expects one term at least"),
        ("[{matchExpressions: [{key: zone, operator: Near}]}]", "Near is no operator of an affinity"),
        ("[{matchExpressions: [{operator: Exists}]}]", "expects the name of a label"),
    ],
)
def test_terms_that_match_no_node_are_refused(terms, message):
    required = f"requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: {terms}}}"
    with pytest.raises(ManifestError, match=message):
        affinity_of(spec(f"affinity: {{nodeAffinity: {{{required}}}}}"))


def test_tolerations_are_read():
    written = spec("tolerations: [{key: gpu, value: a, effect: NoSchedule, tolerationSeconds: 5}, {operator: Exists}]")
    assert tolerations_of(written) == (Toleration("gpu", "Equal", "a", "NoSchedule"), Toleration(operator="Exists"))
    with pytest.raises(ManifestError, match=r"tolerations\[0\].operator: expects Equal or Exists"):
        tolerations_of(spec("tolerations: [{operator: Near}]"))
