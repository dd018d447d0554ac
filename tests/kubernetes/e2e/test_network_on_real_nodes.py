"""The network test and the network profile of a job on two real nodes, by the ordinary path of submission."""

from __future__ import annotations

import json

import pytest

from e2e.user import IMAGE, User

pytestmark = [pytest.mark.timeout(600), pytest.mark.real_nodes]


def test_two_nodes_of_a_cluster_are_measured(user: User) -> None:
    words = ["--on", "kubernetes", "-n", user.namespace, "--image", IMAGE, "--network", "auto,interface=eth0"]
    out = user.windlass("network", "test", "-N", "2", "--sizes", "1Ki,256Ki", "-o", "json", *words)
    found = json.loads(out)
    assert (found["ok"], found["ranks"], found["backend"]) == (True, 2, "gloo")
    assert len(set(found["nodes"])) == 2, found["nodes"]
    assert [each["wrong"] for each in (*found["pairs"], *found["collectives"])] == [0] * 5
    pods = user.pods(1)
    notes = {pod["metadata"]["annotations"]["windlass.dev/network"] for pod in pods}
    assert notes == {"tcp: nodes offer no RDMA device, on 2 of 2 nodes"}
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 2
