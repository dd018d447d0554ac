from windlass.deploy.install.findings import Verdict
from windlass.deploy.install.others import findings_of_others

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
    return list(findings_of_others(deployments, leases, NOW))


def test_nobody_else():
    assert [each.verdict for each in found()] == [Verdict.FINE]


def test_an_operator_of_the_same_kinds_is_wrong_and_named():
    (one,) = found([deployment("mpi-operator", "mpioperator/mpi-operator:0.8.0")])
    assert one.verdict is Verdict.WRONG
    assert one.says.startswith("the MPI operator (kubeflow/mpi-operator) serves MPIJob as well")


def test_one_that_is_scaled_to_nothing_does_not_disturb():
    assert [e.verdict for e in found([deployment("mpi-operator", "mpioperator/mpi-operator", replicas=0)])] == ["ok"]


def test_one_that_was_installed_in_another_way_is_known_by_its_lease():
    name = "1ca428e5.training-operator.kubeflow.org"
    assert [each.verdict for each in found(leases=[lease(name, FRESH)])] == [Verdict.WRONG]
    assert [each.verdict for each in found(leases=[lease(name, OLD)])] == [Verdict.FINE]


def test_a_lease_that_was_never_renewed_is_nobodys():
    assert [each.verdict for each in found(leases=[lease("mpi-operator", None)])] == [Verdict.FINE]


def test_schedulers_and_queues_of_others_may_stay():
    kueue = deployment("kueue-controller-manager", "registry.k8s.io/kueue/kueue:v0.19.2")
    volcano = deployment("volcano-scheduler", "docker.io/volcanosh/vc-scheduler:v1")
    assert [each.verdict for each in found([kueue, volcano])] == [Verdict.ODD, Verdict.ODD]


def test_our_own_operator_is_none_of_the_others():
    assert [each.verdict for each in found([deployment("windlass-operator", "windlass:0.1.0")])] == [Verdict.FINE]
