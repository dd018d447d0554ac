"""A cluster of 5,000 nodes and 50,000 pods of other schedulers: the first picture of it, and what one more event costs.

The memory is that of the picture alone; the objects themselves are the client's (`kubernetes_client`).
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
    picture = ClusterView()
    began = time.perf_counter()
    fill(picture, nodes, pods)
    first = time.perf_counter() - began
    ledger = Ledger(picture.nodes(), (), picture.topology)
    gone = each(picture.drop_pod, pods[:EVENTS])
    come = each(lambda pod: picture.put_pod(pod, ours=False), pods[:EVENTS])
    beats = each(picture.put_node, nodes[:EVENTS])
    told = [change(picture, ledger, pod) for pod in pods[:50]]
    print(f"first picture of {NODES:,} nodes and {PODS:,} pods: {first:.2f} s, {megabytes(nodes, pods):.0f} MB")
    print(f"a pod comes {come:.1f} µs, goes {gone:.1f} µs; a node's heartbeat {beats:.1f} µs")
    claim("first picture, 5,000 nodes and 50,000 pods of others", first * 1000, "ms", 3000)
    claim("a pod of others comes", come / 1000, "ms", 0.1)
    claim("its node in the ledger of the core", statistics.median(told), "ms", 10)


def fill(picture: ClusterView, nodes: Sequence[objects.Node], pods: Sequence[objects.Pod]) -> None:
    for pod in pods:
        picture.put_pod(pod, ours=False)
    for node in nodes:
        picture.put_node(node)
    picture.nodes()


def megabytes(nodes: Sequence[objects.Node], pods: Sequence[objects.Pod]) -> float:
    """What a picture holds beside the objects."""
    tracemalloc.start()
    picture = ClusterView()
    fill(picture, nodes, pods)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held / 2**20


def each(do: Callable, events: Sequence) -> float:
    """Microseconds for one."""
    began = time.perf_counter()
    for event in events:
        do(event)
    return (time.perf_counter() - began) / len(events) * 1e6


def change(picture: ClusterView, ledger: Ledger, pod: objects.Pod) -> float:
    """Milliseconds from a pod's end until the ledger has its node anew."""
    began = time.perf_counter()
    picture.drop_pod(pod)
    ledger.set_cluster(picture.nodes(), (), picture.topology)
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
