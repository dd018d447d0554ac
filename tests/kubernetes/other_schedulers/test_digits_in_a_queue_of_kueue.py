"""The digits gang in a queue of the real Kueue, with real pods on two nodes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.operators import deployed
from e2e.user import IMAGE, ROOT, User, inside
from planes.fixtures import serve_nodes

from windlass.controlplane import kueue
from windlass.controlplane.real_nodes import RealCluster

from .kueue_queues import FLAVOR, QUEUE, with_kueue

pytestmark = [pytest.mark.real_nodes, pytest.mark.timeout(600)]
JOB = """\
name: digits
image: {image}
command: python train.py --epochs 2
nodes: 2
gpus: 1
cpus: 0.3
mem: 1Gi
labels: {{kueue.x-k8s.io/queue-name: research}}
"""


@pytest.fixture(scope="module")
def nodes(request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    if lacking := kueue.lacking():
        pytest.skip(lacking)
    for real in serve_nodes(request):
        admin = User(real.plane.kubeconfig, "default")
        for label, value in FLAVOR.items():
            admin.kubectl("label", "nodes", "--all", f"{label}={value}")
        with with_kueue(real.plane), deployed(real):
            yield real


@pytest.fixture
def user(nodes: RealCluster) -> Iterator[User]:
    """A user whose namespace has a queue of Kueue."""
    with inside(nodes, "research") as somebody:
        queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "metadata": {"name": QUEUE}}
        somebody.apply({**queue, "spec": {"clusterQueue": QUEUE}})
        yield somebody


def test_kueue_admits_the_digits_and_they_train(user: User, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB.format(image=IMAGE))
    ship = str(ROOT / "examples/digits")
    output = user.windlass(
        "run", "--on", "kubernetes", "-n", user.namespace, "--ship", ship, "job.yaml", folder=tmp_path
    )
    assert "[r0" in output
    assert "2 ranks, gloo" in output
    assert "test accuracy 0." in output
    (workload,) = json.loads(user.kubectl("get", "workloads.kueue.x-k8s.io", "-o", "json"))["items"]
    conditions = {each["type"]: each["status"] for each in workload["status"]["conditions"]}
    assert (conditions["Admitted"], conditions["Finished"]) == ("True", "True")
    assert workload["status"]["admission"]["clusterQueue"] == QUEUE
