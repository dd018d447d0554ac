from windlass.backends.kubernetes.client.resources import LEASES, NODES, PODS, named, path


def test_paths_of_objects():
    assert path(PODS) == "/api/v1/pods"
    assert path(PODS, "ns") == "/api/v1/namespaces/ns/pods"
    assert path(PODS, "ns", "p", "binding") == "/api/v1/namespaces/ns/pods/p/binding"
    assert path(NODES, None, "n1") == "/api/v1/nodes/n1"
    assert path(LEASES, "ns", "l") == "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l"


def test_a_namespace_is_ignored_for_cluster_resources():
    assert path(NODES, "ns", "n1", "status") == "/api/v1/nodes/n1/status"


def test_unusual_names_stay_one_part_of_the_path():
    assert path(NODES, None, "../secrets?x=1") == "/api/v1/nodes/..%2Fsecrets%3Fx%3D1"


def test_a_resource_is_made_from_an_api_version():
    row = named("kubeflow.org/v1", "pytorchjobs", "PyTorchJob")
    assert (row.group, row.version, row.api_version) == ("kubeflow.org", "v1", "kubeflow.org/v1")
    assert row.full_name == "pytorchjobs.kubeflow.org"
    assert (named("v1", "pods", "Pod").group, PODS.full_name) == ("", "pods")
