from windlass.backends.kubernetes.cluster.other_operators import rivals_among

NOW = 1_800_000_000.0
FRESH, OLD = "2027-01-15T08:00:00.000000Z", "2027-01-15T07:00:00.000000Z"
"""15 January 2027, 08:00 is NOW."""


def deployment(name, image, replicas=1):
    template = {"spec": {"containers": [{"name": "a", "image": image}]}}
    return {
        "metadata": {"namespace": "kubeflow", "name": name},
        "spec": {"replicas": replicas, "template": template},
    }


def lease(name, renewed):
    return {
        "metadata": {"namespace": "kubeflow", "name": name},
        "spec": {"renewTime": renewed, "leaseDurationSeconds": 15},
    }


def found(deployments=(), leases=()):
    return [(str(each), each.serves) for each in rivals_among(deployments, leases, NOW)]


def test_a_cluster_without_other_operators_has_no_rivals():
    assert found() == []


def test_an_operator_of_the_same_kinds_is_named_with_them():
    there = [deployment("mpi-operator", "mpioperator/mpi-operator:0.8.0")]
    assert found(there) == [("the MPI operator (kubeflow/mpi-operator)", ("MPIJob",))]


def test_an_operator_scaled_to_zero_is_no_rival():
    assert found([deployment("mpi-operator", "mpioperator/mpi-operator", replicas=0)]) == []


def test_an_operator_without_a_deployment_is_found_by_its_lease():
    name = "1ca428e5.training-operator.kubeflow.org"
    assert [who for who, _ in found(leases=[lease(name, FRESH)])] == [f"the training operator (kubeflow/{name})"]
    assert found(leases=[lease(name, OLD)]) == []


def test_a_lease_that_was_never_renewed_belongs_to_no_operator():
    assert found(leases=[lease("mpi-operator", None)]) == []


def test_schedulers_and_queues_of_others_serve_no_kind_of_ours():
    kueue = deployment("kueue-controller-manager", "registry.k8s.io/kueue/kueue:v0.19.2")
    volcano = deployment("volcano-scheduler", "docker.io/volcanosh/vc-scheduler:v1")
    assert [serves for _, serves in found([kueue, volcano])] == [(), ()]


def test_our_own_operator_is_no_rival():
    assert found([deployment("windlass-operator", "windlass:0.1.0")]) == []
