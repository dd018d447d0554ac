"""Other operators: found by what their service accounts may do, not by the names of images or leases."""

import asyncio
import json
from typing import Any

import pytest

from windlass.backends.kubernetes.cluster import other_operators
from windlass.backends.kubernetes.cluster.other_operators import Discovery, RivalSearch


class Api:
    """An API server with deployments, and accounts that may do anything to some resources of all namespaces."""

    def __init__(self, *deployments: dict[str, Any], **rights: tuple[str, ...]) -> None:
        """`rights`: resources by the namespace of the account that may write them."""
        self.deployments, self.rights = deployments, rights

    async def list(self, _resource: Any) -> tuple[dict[str, Any], ...]:
        return self.deployments

    async def request(self, _method: str, _path: str, *, body: dict[str, Any], **_: Any) -> bytes:
        spec = body["spec"]
        asked = spec["resourceAttributes"]
        _, _, namespace, _ = spec["user"].split(":")
        assert "namespace" not in asked
        allowed = f"{asked['resource']}/{asked['subresource']}" in self.rights.get(namespace, ())
        return json.dumps({"status": {"allowed": allowed}}).encode()


def deployment(name, image, replicas=1, namespace="kubeflow"):
    template = {"spec": {"containers": [{"name": "a", "image": image}], "serviceAccountName": name}}
    return {
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"replicas": replicas, "template": template},
    }


def found(*deployments, **rights):
    result = search(Api(*deployments, **rights))
    assert not result.unknown
    return [(str(each), each.serves) for each in result.operators]


def search(api: Any) -> Discovery:
    return asyncio.run(RivalSearch(api).run())


MPI = deployment("mpi-operator", "mpioperator/mpi-operator:0.8.0")


def test_a_cluster_without_other_operators_has_no_rivals():
    assert found() == []


def test_an_operator_that_may_write_the_status_of_our_kinds_is_named_with_them():
    assert found(MPI, kubeflow=("mpijobs/status",)) == [("the MPI operator (kubeflow/mpi-operator)", ("MPIJob",))]


def test_a_tenants_deployment_with_an_operators_image_is_no_rival():
    fake = deployment("mpi-operator", "mpioperator/mpi-operator:0.8.0", namespace="tenant")
    assert found(fake, kubeflow=("mpijobs/status",)) == []
    assert found(fake, MPI, kubeflow=("mpijobs/status",)) == [("the MPI operator (kubeflow/mpi-operator)", ("MPIJob",))]


def test_an_operator_serves_only_the_kinds_whose_status_it_may_write():
    training = deployment("training", "ghcr.io/kubeflow/training-v1/training-operator:v1")
    assert found(training, kubeflow=("pytorchjobs/status", "tfjobs/status")) == [
        ("the training operator (kubeflow/training)", ("PyTorchJob", "TFJob"))
    ]


def test_an_operator_scaled_to_zero_is_no_rival():
    stopped = deployment("mpi-operator", "mpioperator/mpi-operator", replicas=0)
    assert found(stopped, kubeflow=("mpijobs/status",)) == []


@pytest.mark.parametrize("broken", [{}, {"spec": None}, {"spec": {"template": {"spec": {"containers": None}}}}])
def test_a_deployment_that_cannot_be_read_hides_no_operator(broken):
    fake = deployment("fake", "mpioperator/mpi-operator", namespace="tenant") | broken
    assert found({"metadata": {}}, fake, MPI, kubeflow=("mpijobs/status",)) == [
        ("the MPI operator (kubeflow/mpi-operator)", ("MPIJob",))
    ]


def test_schedulers_and_queues_of_others_serve_no_kind_of_ours():
    kueue = deployment("kueue-controller-manager", "registry.k8s.io/kueue/kueue:v0.19.2")
    volcano = deployment("volcano-scheduler", "docker.io/volcanosh/vc-scheduler:v1")
    there = found(kueue, volcano, kubeflow=("workloads/status", "pods/binding"))
    assert [serves for _, serves in there] == [(), ()]
    assert found(kueue, volcano) == []


def test_our_own_operator_is_no_rival():
    assert found(deployment("windlass-operator", "windlass:0.1.0"), kubeflow=("mpijobs/status",)) == []


class CountingApi(Api):
    """Counts the access reviews; with `hangs` none is ever answered, and none about accounts of `hangs_for`."""

    reviews = 0
    hangs = False
    hangs_for = ""

    async def request(self, *about: Any, **options: Any) -> bytes:
        self.reviews += 1
        if self.hangs or options["body"]["spec"]["user"].split(":")[2] == self.hangs_for:
            await asyncio.Event().wait()
        return await super().request(*about, **options)


def test_many_deployments_of_a_tenant_cost_few_reviews_and_hide_no_operator():
    image = MPI["spec"]["template"]["spec"]["containers"][0]["image"]
    many = [deployment(f"fake-{number}", image, namespace="tenant") for number in range(1_000)]
    same = [deployment("same", image, namespace="other") for _ in range(1_000)]
    api = CountingApi(*many, *same, MPI, kubeflow=("mpijobs/status",))
    (operator,) = search(api).operators
    assert str(operator) == "the MPI operator (kubeflow/mpi-operator)"
    assert api.reviews == 5 + 1 + 1


def test_a_search_ends_at_its_deadline_and_names_the_kinds_that_it_has_not_decided(monkeypatch):
    monkeypatch.setattr(other_operators, "DEADLINE_S", 0.01)
    api = CountingApi(MPI, kubeflow=("mpijobs/status",))
    api.hangs = True
    assert search(api) == Discovery([], frozenset({"MPIJob"}))


def test_a_search_continues_where_the_last_one_has_ended(monkeypatch):
    monkeypatch.setattr(other_operators, "DEADLINE_S", 0.01)
    training = deployment("training", "ghcr.io/kubeflow/training-v1/training-operator:v1", namespace="training")
    api = CountingApi(training, MPI, kubeflow=("mpijobs/status",), training=("tfjobs/status",))
    api.hangs_for = "kubeflow"

    async def searches() -> tuple[Discovery, Discovery]:
        rivals = RivalSearch(api)  # type: ignore[arg-type]
        first = await rivals.run()
        api.hangs_for = ""
        monkeypatch.setattr(other_operators, "DEADLINE_S", 60.0)
        return first, await rivals.run()

    first, second = asyncio.run(searches())
    assert first.unknown == {"MPIJob"}
    assert [each.serves for each in first.operators] == [("TFJob",)]
    assert not second.unknown
    assert [each.serves for each in second.operators] == [("TFJob",), ("MPIJob",)]
    assert api.reviews == 6 + 2, "six kinds of the training operator, and the MPIJob twice"
