"""Cluster files by example."""

import pytest

from windlass.core.model.node import Node, Taint, Topology
from windlass.core.model.queue import Queue
from windlass.jobs.cluster.cluster_file import load_cluster, read_cluster
from windlass.jobs.errors import InputError
from windlass.jobs.syntax.text import Text


def cluster(text):
    return read_cluster(Text("cluster.yaml", text))


def error_of(text):
    with pytest.raises(InputError) as error:
        cluster(text)
    return str(error.value)


def test_count_makes_numbered_nodes(tmp_path):
    (tmp_path / "c.yaml").write_text("nodes: [{name: n, count: 2, gpus: 4, cpus: 8, mem: 16Gi}, {name: m}]")
    declared = load_cluster(str(tmp_path / "c.yaml"))
    amounts = {"cpu": 8000, "memory": 16 * 2**30, "gpu": 4}
    assert declared.nodes == (Node("n1", amounts), Node("n2", amounts), Node("m", {"cpu": 1000}))


def test_a_node_has_as_many_cores_as_gpus_by_default():
    assert cluster("nodes: [{name: n, gpus: 4}]").nodes[0].capacity == {"cpu": 4000, "gpu": 4}


def test_a_cluster_always_has_a_default_queue():
    assert cluster("nodes: [{name: n}]").queues == (Queue("default"),)
    queues = cluster(
        "nodes: [{name: n}]\nqueues: [{name: a, quota: {gpu: 4}}, {name: default, quota: {cpu: 1.5}}]"
    ).queues
    assert queues == (Queue("default", {"cpu": 1500}), Queue("a", {"gpu": 4}))


def test_a_node_has_a_domain_at_every_level():
    declared = cluster("""
topology: [block, rack]
nodes:
  - name: n
    place: {rack: r1, block: b1}
    labels: {zone: a}
    taints: [{key: gpu}]
    cordoned: drained for repair
""")
    assert declared.topology == Topology(("block", "rack"))
    assert declared.nodes[0].place == ("b1", "r1")
    assert declared.nodes[0].labels == {"zone": "a"}
    assert declared.nodes[0].taints == (Taint("gpu"),)
    assert declared.nodes[0].cordoned == "drained for repair"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "cluster.yaml: a cluster file holds one document, not 0"),
        (
            "queues: []",
            "cluster.yaml:1:1: a cluster needs nodes; write for example nodes: [{name: n, count: 2, gpus: 4}]",
        ),
        ("nodes: [{}]", "cluster.yaml:1:9: it has no name"),
        ("nodes: [{name: n, gpu: 4}]", "cluster.yaml:1:19: unknown field 'gpu'; it is called 'gpus' here"),
        ("nodes: [{name: N}]", "cluster.yaml:1:16: name expects small letters, digits, dashes and dots, not 'N'"),
        ("nodes: [{name: n, count: 2}, {name: n2}]", "cluster.yaml:1:31: 'n2' is the name of another already"),
        (
            "nodes: [{name: n, place: {rack: r}}]",
            "cluster.yaml:1:19: the topology has no level 'rack'; its levels are none",
        ),
        ("nodes: [{name: n}]\ntopology: [rack]", "cluster.yaml:1:9: its place lacks the level 'rack' of the topology"),
        ("nodes: [{name: n, place: {a: x}}]\ntopology: [a, a]", "cluster.yaml:2:1: a level is named twice"),
        ("nodes: [{name: n, taints: [{}]}]", "cluster.yaml:1:28: a taint needs a key"),
        ("nodes: [{name: n, count: 100000}, {name: m}]", "cluster.yaml:1:1: more than 100000 nodes"),
        ("nodes: [{name: n}]\nqueues: [{quota: {gpu: x}}]", "cluster.yaml:2:24: gpu expects a whole number from 0"),
        ("nodes: [{name: n}]\nqueues: [{name: a}, {name: a}]", "cluster.yaml:2:22: 'a' is the name of another already"),
    ],
)
def test_every_error_has_one_clear_line(text, line):
    assert error_of(text).startswith(line)
