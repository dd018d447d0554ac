"""The client for Kubernetes against kubernetes_asyncio: lists, watches, bindings, and memory for 10,000 pods.

On a real API server on this machine, which is built on the first run; its etcd does not wait for the disk. Each client
works in a process of its own, which loads no other client, and both read the same objects, in turn.
"""

import asyncio
import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from clusters.benchmark_plane import each_of, run_on_plane
from windlass.backends.kubernetes.client import objects
from windlass.backends.kubernetes.client.access import from_kubeconfig
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.mirror import Malformed, Mirror
from windlass.backends.kubernetes.client.object_cache import ObjectCache
from windlass.backends.kubernetes.client.resources import NODES, PODS, Resource
from windlass.backends.kubernetes.client.watch import Scope, watch
from windlass.controlplane.api import Api
from windlass.controlplane.cluster import ControlPlane
from windlass.controlplane.programs import API_SERVER

NODE_COUNT, POD_COUNT, BINDS, AT_ONCE, ROUNDS = 1_000, 10_000, 600, 64, 3
PODS_PATH = "/api/v1/namespaces/default/pods"
PEER = "kubernetes_asyncio"


def main() -> int:
    if len(sys.argv) == 3:
        client, kubeconfig = sys.argv[1:]
        print(json.dumps(asyncio.run(ours(kubeconfig) if client == "ours" else peer(kubeconfig))))
        return 0
    return run_on_plane(API_SERVER, lambda plane, _folder: compare(plane))


def compare(plane: ControlPlane) -> None:
    asyncio.run(fill(plane))
    report([(side("ours", plane), side("peer", plane)) for _ in range(ROUNDS)])


def side(client: str, plane: ControlPlane) -> dict[str, float]:
    """Measure one client in a process of its own."""
    command = [sys.executable, __file__, client, str(plane.kubeconfig)]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def report(turns: list[tuple[dict[str, float], dict[str, float]]]) -> None:
    for claim, key, target, unit, better in (
        (f"list of {POD_COUNT:,} pods from a real API server, into memory", "list", 1.0, "s", "lower"),
        ("events of a watch of pods, into memory", "watch", 20_000, "/s", "higher"),
        (f"binds, {AT_ONCE} at a time", "binds", 1_400, "/s", "higher"),
        (f"memory that {NODE_COUNT:,} nodes and {POD_COUNT:,} pods take", "held", 60, "MB", "lower"),
        ("memory of a process before it holds objects", "base", 80, "MB", "lower"),
    ):
        ours, peer = (statistics.median(turn[client][key] for turn in turns) for client in (0, 1))
        line = {"claim": claim, "measured": ours, "unit": unit, "target": target, "better": better}
        print(json.dumps({**line, "peer": PEER, "peer_measured": peer}))


# Objects that are read.


async def fill(plane: ControlPlane) -> None:
    async with plane.api() as api:
        await each_of(range(NODE_COUNT), lambda number: api.post("/api/v1/nodes", node(number)), at_once=AT_ONCE)
        await each_of(range(POD_COUNT), lambda number: pod(api, number), at_once=AT_ONCE)


async def pod(api: Api, number: int) -> None:
    """Create a pod like a training operator; all but those that are to be bound run, with a status like a kubelet's."""
    job, index = f"train-{number // 8}", number % 8
    labels = {"training.kubeflow.org/job-name": job, "training.kubeflow.org/replica-index": str(index), "app": "train"}
    wanted = {"cpu": "4", "memory": "32Gi", "nvidia.com/gpu": "1"}
    container = {
        "name": "pytorch",
        "image": "example.com/train:1",
        "command": ["python", "train.py"],
        "env": [{"name": name, "value": str(index)} for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")],
        "ports": [{"name": "rendezvous", "containerPort": 23456}],
        "resources": {"requests": wanted, "limits": wanted},
    }
    spec = {"schedulerName": "nobody", "restartPolicy": "Never", "containers": [container]}
    bound = number >= BINDS * ROUNDS * 2
    if bound:
        spec["nodeName"] = f"node-{number % NODE_COUNT}"
    metadata = {"name": f"{job}-worker-{index}", "labels": labels}
    await api.post(PODS_PATH, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    if bound:
        await api.patch(f"{PODS_PATH}/{metadata['name']}/status", {"status": running(number)})


def running(number: int) -> dict[str, Any]:
    since = f"2026-01-01T00:{number // 60 % 60:02}:{number % 60:02}Z"
    conditions = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "phase": "Running",
        "podIP": f"10.1.{number // 250}.{number % 250}",
        "hostIP": f"10.0.0.{number % 250}",
        "startTime": since,
        "conditions": [{"type": type, "status": "True", "lastTransitionTime": since} for type in conditions],
        "containerStatuses": [
            {
                "name": "pytorch",
                "state": {"running": {"startedAt": since}},
                "ready": True,
                "restartCount": 0,
                "image": "example.com/train:1",
                "imageID": "",
            }
        ],
    }


def node(number: int) -> dict[str, Any]:
    name = f"node-{number}"
    labels = {"kubernetes.io/hostname": name, "rack": f"r{number // 40}", "nvidia.com/gpu.product": "H100"}
    capacity = {"cpu": "128", "memory": "2Ti", "pods": "110", "nvidia.com/gpu": "8"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is ready"}
    status = {"capacity": capacity, "allocatable": capacity, "conditions": [ready]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


# Clients.


async def ours(kubeconfig: str) -> dict[str, float]:
    async with Connection(from_kubeconfig(kubeconfig)) as connection:
        await connection.list(NODES, fields="metadata.name=none")
        base = memory()
        nodes, began = await mirrored(connection, NODES, objects.node), time.perf_counter()
        pods = await mirrored(connection, PODS, objects.pod)
        listed, held = time.perf_counter() - began, memory() - base
        assert (len(nodes.cache.objects), len(pods.cache.objects)) == (NODE_COUNT, POD_COUNT)
        del nodes, pods

        cache, began = ObjectCache[objects.Pod](), time.perf_counter()
        async for batch in watch(connection, PODS, "0", Scope()):  # first, all existing objects
            for event in [one for one in batch if one.type != "BOOKMARK"]:
                cache.put(objects.pod(bytes(event.object)))
            if len(cache.objects) == POD_COUNT:
                break
        watched = POD_COUNT / (time.perf_counter() - began)

        found = sorted(
            (pod.metadata.name, pod.metadata.uid) for pod in cache.objects.values() if not pod.spec.node_name
        )
        began = time.perf_counter()
        await each_of(found[:BINDS], lambda of: connection.bind("default", *of, "node-0"), at_once=AT_ONCE)
        binds = BINDS / (time.perf_counter() - began)
        return {"base": base, "list": listed, "held": held, "watch": watched, "binds": binds}


async def peer(kubeconfig: str) -> dict[str, float]:
    import kubernetes_asyncio as library  # noqa: PLC0415 - only here: its memory is measured

    settings = library.client.Configuration()
    await library.config.load_kube_config(kubeconfig, client_configuration=settings)
    settings.connection_pool_maxsize = 128
    async with library.client.ApiClient(settings) as client:
        api = library.client.CoreV1Api(client)
        await api.list_node(field_selector="metadata.name=none")
        base = memory()
        nodes, began = await api.list_node(), time.perf_counter()
        pods = await paged(api)
        listed, held = time.perf_counter() - began, memory() - base
        assert (len(nodes.items), len(pods)) == (NODE_COUNT, POD_COUNT)
        del nodes, pods

        kept, began = {}, time.perf_counter()
        async with library.watch.Watch() as stream:
            async for event in stream.stream(api.list_pod_for_all_namespaces, resource_version="0"):
                kept[event["object"].metadata.name] = event["object"]
                if len(kept) == POD_COUNT:
                    break
        watched = POD_COUNT / (time.perf_counter() - began)

        model = library.client
        target = model.V1ObjectReference(api_version="v1", kind="Node", name="node-0")
        found = [pod.metadata for _, pod in sorted(kept.items()) if not pod.spec.node_name]

        def bind(of: Any) -> Awaitable[Any]:
            body = model.V1Binding(metadata=model.V1ObjectMeta(name=of.name, uid=of.uid), target=target)
            # The reply is a Status, which the library would decode as a Binding and refuse.
            return api.create_namespaced_pod_binding(of.name, "default", body, _preload_content=False)

        began = time.perf_counter()
        await each_of(found[:BINDS], bind, at_once=AT_ONCE)
        binds = BINDS / (time.perf_counter() - began)
        return {"base": base, "list": listed, "held": held, "watch": watched, "binds": binds}


async def paged(api: Any) -> list[Any]:
    """List pods in pages of the same size as our client's."""
    found, rest = [], None
    while rest != "":
        page = await api.list_pod_for_all_namespaces(limit=500, _continue=rest)
        found += page.items
        rest = page.metadata._continue or ""  # noqa: SLF001 - its name for `continue`
    return found


async def mirrored(connection: Connection, resource: Resource, decode: Callable[[bytes], Any]) -> Mirror[Any]:
    mirror = Mirror(decode, stop)
    mirror.apply_list(await connection.list_decoded(resource, mirror.decode_listed))
    return mirror


def stop(malformed: Malformed) -> None:
    raise AssertionError(malformed)


def memory() -> float:
    """Resident memory of this process in MB (a million bytes)."""
    gc.collect()
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) * 1024 / 1e6


if __name__ == "__main__":
    sys.exit(main())
