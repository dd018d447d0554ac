"""A node that is silent while its containers run: no pod of the next generation starts beside them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from planes.fixtures import serve_nodes

from e2e.operators import beside
from e2e.user import IMAGE, User, in_new_namespace, processes_of, true_conditions, until
from windlass.controlplane.real_nodes import RealCluster

pytestmark = [pytest.mark.timeout(600), pytest.mark.real_nodes]
LOOK_FOR = 12.0
"""Seconds: longer than the node needs to be called unreachable and its pods to be told to go."""


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    """A cluster of its own, because it loses a node."""
    yield from serve_nodes(request)


def one_or_two_nodes() -> dict[str, Any]:
    """A replica takes all devices of a node. The second generation ends well."""
    command = ["sh", "-c", '[ "$WINDLASS_GENERATION" != 1 ] || sleep 3000']
    spec = {"elastic": {"min": 1, "max": 2}, "gpus": 2, "procs": 1, "image": IMAGE, "command": command}
    spec |= {"grace": "2s", "unreachable_grace": "1s"}
    return {"apiVersion": "windlass.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "split"}, "spec": spec}


def test_a_generation_starts_only_when_no_process_of_the_last_one_can_be_alive(
    cluster: RealCluster, tmp_path: Path
) -> None:
    with beside(cluster, tmp_path):
        user = in_new_namespace(cluster, "team")  # it ends with the cluster: pods of deleted nodes stay for 40 s
        user.apply(one_or_two_nodes())
        until("both pods to run", lambda: user.running(1, 2))
        kept, lost = user.pods(1)
        node = next(each for each in cluster.nodes if each.name == lost["spec"]["nodeName"])
        alone = processes_of(lost)

        node.kubelet.pause()
        until("the loss to be noticed", lambda: user.ended("trainingjobs/split", "Restarting"))
        until("the other pod to go", lambda: names(user.pods(1)) == [lost["metadata"]["name"]])
        nothing_starts_beside(user, alone)
        assert node.name in true_conditions(user.status("trainingjobs/split"))["Restarting"]
        assert kept["spec"]["nodeName"] != node.name

        node.machine.power_off()
        user.kubectl("delete", "node", node.name)
        until("the job to succeed", lambda: user.ended("trainingjobs/split"))

        status = user.status("trainingjobs/split")
        assert (status["windlass"]["generation"], status["failures"]["infrastructure"]) == (2, 1)
        assert {pod["spec"]["nodeName"] for pod in user.pods(2)} == {kept["spec"]["nodeName"]}


def nothing_starts_beside(user: User, alone: list[int]) -> None:
    """While these processes live, no pod of generation 2 is on a node."""
    until_then = time.monotonic() + LOOK_FOR
    while time.monotonic() < until_then:
        assert all(Path(f"/proc/{pid}").exists() for pid in alone)
        assert not [pod for pod in user.pods(2) if pod["spec"].get("nodeName")]
        time.sleep(0.5)


def names(pods: list[dict[str, Any]]) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods]
