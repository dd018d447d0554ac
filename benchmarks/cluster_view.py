"""A cluster of 5,000 nodes and 50,000 pods of other schedulers: time for the first view of it, and for one more event.

The memory is that of the view alone; the objects themselves are the client's (`kubernetes_client`).
"""

import json
import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence

from windlass.backends.kubernetes.client import objects
from windlass.backends.kubernetes.cluster.cluster_view import ClusterView
from windlass.core.ledger import Ledger

NODES, PODS, EVENTS = 5_000, 50_000, 2_000
ALLOCATABLE = {
    "cpu": "192",
    "memory": "2113192324Ki",
    "ephemeral-storage": "1234567890",
    "hugepages-2Mi": "0",
    "nvidia.com/gpu": "8",
    "pods": "110",
    "rdma/hca": "8",
}


def main() -> None:
    nodes, pods = [a_node(number) for number in range(NODES)], [a_pod(number) for number in range(PODS)]
    view = ClusterView()
    began = time.perf_counter()
    fill(view, nodes, pods)
    first = time.perf_counter() - began
    ledger = Ledger(view.nodes(), (), view.topology)
    removed_us = each(view.drop_pod, pods[:EVENTS])
    added_us = each(lambda pod: view.put_pod(pod, ours=False), pods[:EVENTS])
    heartbeat_us = each(view.put_node, nodes[:EVENTS])
    updates = [change(view, ledger, pod) for pod in pods[:50]]
    print(f"first view of {NODES:,} nodes and {PODS:,} pods: {first:.2f} s, {mebibytes(nodes, pods):.0f} MB")
    print(
        f"a pod is added in {added_us:.1f} µs, removed in {removed_us:.1f} µs; a node's heartbeat {heartbeat_us:.1f} µs"
    )
    claim("first view, 5,000 nodes and 50,000 pods of others", first * 1000, "ms", 3000)
    claim("a pod of another scheduler is added", added_us / 1000, "ms", 0.1)
    claim("its node is updated in the core's ledger", statistics.median(updates), "ms", 10)


def fill(view: ClusterView, nodes: Sequence[objects.Node], pods: Sequence[objects.Pod]) -> None:
    for pod in pods:
        view.put_pod(pod, ours=False)
    for node in nodes:
        view.put_node(node)
    view.nodes()


def mebibytes(nodes: Sequence[objects.Node], pods: Sequence[objects.Pod]) -> float:
    """MiB that a view takes beside the objects."""
    tracemalloc.start()
    view = ClusterView()
    fill(view, nodes, pods)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held / 2**20


def each(do: Callable, events: Sequence) -> float:
    """Microseconds for one event."""
    began = time.perf_counter()
    for event in events:
        do(event)
    return (time.perf_counter() - began) / len(events) * 1e6


def change(view: ClusterView, ledger: Ledger, pod: objects.Pod) -> float:
    """Milliseconds from a pod's end until the ledger has the new capacity of its node."""
    began = time.perf_counter()
    view.drop_pod(pod)
    ledger.set_cluster(view.nodes(), (), view.topology)
    return (time.perf_counter() - began) * 1000


def a_node(number: int) -> objects.Node:
    name = f"n{number}"
    features = {f"feature.node.kubernetes.io/cpu-{feature}": "true" for feature in range(30)}
    labels = {
        **features,
        "kubernetes.io/hostname": name,
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "topology.windlass.dev/block": f"b{number // 500}",
        "topology.windlass.dev/rack": f"r{number // 20}",
    }
    status = {"allocatable": ALLOCATABLE, "conditions": [{"type": "Ready", "status": "True"}]}
    return objects.node(json.dumps({"metadata": metadata(name, labels), "status": status}))


def a_pod(number: int) -> objects.Pod:
    asked = {"requests": {"cpu": f"{100 + number % 7}m", "memory": "128Mi"}}
    beside = {"requests": {"cpu": "10m"}, "limits": {"memory": "50Mi"}}
    containers = [{"name": "main", "resources": asked}, {"name": "logs", "resources": beside}]
    spec = {"nodeName": f"n{number % NODES}", "containers": containers, "initContainers": [{"name": "fetch"}]}
    return objects.pod(
        json.dumps({"metadata": metadata(f"p{number}", {}), "spec": spec, "status": {"phase": "Running"}})
    )


def metadata(name: str, labels: dict[str, str]) -> dict:
    return {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", "labels": labels}


def claim(what: str, measured: float, unit: str, target: float) -> None:
    print(json.dumps({"claim": what, "measured": round(measured, 3), "unit": unit, "target": target}))


if __name__ == "__main__":
    main()
