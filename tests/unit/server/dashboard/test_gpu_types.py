"""Types of GPUs that a what-if question may ask for."""

from windlass.core.ledger import Ledger
from windlass.core.model.node import Node
from windlass.core.model.queue import Queue
from windlass.server.dashboard.gpu_types import gpu_types


def test_types_are_counted_with_what_is_free_on_usable_nodes() -> None:
    nodes = [
        Node("a1", {"gpu": 8}, labels={"gpu-type": "A100"}),
        Node("h1", {"gpu": 8}, labels={"gpu-type": "H100"}),
        Node("h2", {"gpu": 8}, labels={"gpu-type": "H100"}, ready=False),
        Node("c1", {"cpu": 8000}),
    ]
    assert gpu_types(Ledger(nodes, [Queue("default")]).snapshot()) == [
        {"name": "H100", "nodes": 2, "total": 16, "free": 8},
        {"name": "A100", "nodes": 1, "total": 8, "free": 8},
    ]


def test_a_cluster_without_labels_or_gpus_has_no_types() -> None:
    assert gpu_types(Ledger([Node("c1", {"cpu": 8000})], [Queue("default")]).snapshot()) == []
    assert gpu_types(Ledger([Node("g1", {"gpu": 8})], [Queue("default")]).snapshot()) == []
