"""The operator on a real API server: time to create and bind pods, CPU and memory, and time until a replica takes over.

1,000 nodes of 8 GPUs, which are objects without kubelets; etcd does not wait for the disk. The operator is installed by
`windlass operator install`, and each replica is a process of `windlass operator run`.
"""

import asyncio
import os
import signal
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Self

from clusters.benchmark_plane import each_of, install_operator, operator_process, report, run_on_plane
from windlass.backends.kubernetes.client import objects
from windlass.backends.kubernetes.client import resources as r
from windlass.backends.kubernetes.client.access import from_kubeconfig
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.reflector import reflect
from windlass.controlplane.api import Api
from windlass.controlplane.cluster import ControlPlane
from windlass.controlplane.programs import API_SERVER

NODES, JOBS, SIZE, SINGLE, GANG = 1_000, 500, 4, 20, 8
HELD, WAITING = 10_000, 500
LEASE, QUIET = 15, 30
LEASES = ("--lease-seconds", str(LEASE))
BARE = "a client that only writes these objects"
CONTAINER = {
    "name": "pytorch",
    "image": "example.com/train:1",
    "resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "4", "memory": "16Gi"}},
}
STATE = {"number": 1, "revision": 1, "phase": "Admitted", "generation": 1, "state": "{}"}
PYTORCH = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"
TRAINING = "/apis/windlass.dev/v1alpha1/namespaces/default/trainingjobs"
PODS = "/api/v1/namespaces/default/pods"


def main() -> int:
    def install_and_measure(plane: ControlPlane, folder: Path) -> None:
        install_operator(plane)
        asyncio.run(measure(plane, folder))

    return run_on_plane(API_SERVER, install_and_measure)


async def measure(plane: ControlPlane, folder: Path) -> None:
    connection = Connection(from_kubeconfig(str(plane.kubeconfig)))
    async with plane.api() as api, connection, Pods(connection) as pods:
        await each_of(range(NODES), lambda number: add_node(api, node(number)))
        with operator_process(folder, "one", *LEASES):
            await pods.leader(api)
            report("TrainingJob created → all 8 pods bound, median", await one_by_one(api, pods), "ms", 50)
            rate = await burst(api, pods)
        bare = await written(api, pods)
        claim = f"{JOBS} PyTorchJobs of {SIZE} at once → all pods exist"
        report(claim, rate, "pods/s", 400, better="higher", peer=BARE, peer_measured=bare)
        await clear(api)
        with operator_process(folder, "two", *LEASES) as first:
            await pods.leader(api)
            await fill(api)
            await asyncio.sleep(QUIET)
            used = cpu(first.pid)
            await asyncio.sleep(QUIET)
            percent = 100 * (cpu(first.pid) - used) / QUIET
            report(f"memory, {NODES:,} nodes and {HELD:,} pods", memory(first.pid), "MB", 300)
            report(f"CPU of a core with {WAITING} waiting gangs and no events", percent, "%", 2)
            with operator_process(folder, "three", *LEASES):
                await asyncio.sleep(QUIET / 2)
                report(
                    "leader killed → next binding by the other replica",
                    await killed(api, pods, first.pid),
                    "s",
                    LEASE + 2,
                )


# Measurements.


async def one_by_one(api: Api, pods: "Pods") -> float:
    took = []
    for number in range(SINGLE):
        began = time.perf_counter()
        await api.post(TRAINING, training(f"s{number}", GANG))
        took.append((await pods.bound(f"s{number}-", GANG) - began) * 1000)
        await asyncio.sleep(0.2)
    return statistics.median(took)


async def burst(api: Api, pods: "Pods") -> float:
    began = time.perf_counter()
    making = asyncio.create_task(each_of(range(JOBS), lambda number: api.post(PYTORCH, pytorch(f"b{number}"))))
    last = await pods.created("b", JOBS * SIZE)
    await making
    await pods.bound("b", JOBS * SIZE)
    return JOBS * SIZE / (last - began)


async def written(api: Api, pods: "Pods") -> float:
    """Pods per second of a client that writes the same jobs, one state for each, and their pods, without deciding."""
    jobs = range(JOBS)
    began = time.perf_counter()

    async def work(number: int) -> None:
        await api.post(PYTORCH, pytorch(f"f{number}", managed_by="kueue.x-k8s.io/multikueue"))
        await api.patch(f"{PYTORCH}/f{number}/status", {"status": {"windlass": STATE}})
        await asyncio.gather(*(api.post(PODS, member(number, index)) for index in range(SIZE)))

    await each_of(jobs, work)
    return JOBS * SIZE / (await pods.created("f", JOBS * SIZE) - began)


async def fill(api: Api) -> None:
    """Create pods of another scheduler on every node, and gangs that do not fit."""
    await each_of(range(HELD), lambda number: api.post(PODS, other(number)))
    await each_of(range(WAITING), lambda number: api.post(TRAINING, training(f"w{number}", GANG)))


async def killed(api: Api, pods: "Pods", leader: int) -> float:
    """Seconds from the leader's end to the binding of a job that is created right after it."""
    os.kill(leader, signal.SIGKILL)
    began = time.perf_counter()
    await api.post(TRAINING, training("k", 1, gpus=0))
    return await pods.bound("k-", 1) - began


class Pods:
    """Times at which each pod was first seen, and first seen on a node."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.first: dict[str, float] = {}
        self.placed: dict[str, float] = {}
        self._more = asyncio.Event()

    async def __aenter__(self) -> Self:
        ready = asyncio.Event()
        mirror = reflect(self._connection, r.PODS, decode=objects.pod, apply=self._apply, synced=ready.set)
        self._task = asyncio.create_task(mirror)
        await ready.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def _apply(self, changes: Any) -> None:
        now = time.perf_counter()
        for change in changes:
            name = change.object.metadata.name
            self.first.setdefault(name, now)
            if change.object.spec.node_name:
                self.placed.setdefault(name, now)
        self._more.set()

    async def created(self, prefix: str, count: int) -> float:
        return await self._until(self.first, prefix, count)

    async def bound(self, prefix: str, count: int) -> float:
        return await self._until(self.placed, prefix, count)

    async def _until(self, seen: dict[str, float], prefix: str, count: int) -> float:
        async with asyncio.timeout(180):
            while True:
                found = [at for name, at in seen.items() if name.startswith(prefix)]
                if len(found) >= count:
                    return max(found)
                self._more.clear()
                await self._more.wait()

    async def leader(self, api: Api) -> None:
        """Wait until a replica leads, that is, has bound a pod."""
        name = f"first-{len(self.placed)}"
        await api.post(TRAINING, training(name, 1, gpus=0))
        await self.bound(f"{name}-", 1)


# Objects.


def training(name: str, nodes: int, gpus: int = 1) -> dict[str, Any]:
    spec = {"image": "example.com/train:1", "command": "torchrun train.py", "nodes": nodes, "gpus": gpus}
    return {"apiVersion": "windlass.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name}, "spec": spec}


def pytorch(name: str, managed_by: str | None = None) -> dict[str, Any]:
    template = {"spec": {"containers": [CONTAINER]}}
    replicas = {"Master": {"replicas": 1, "template": template}, "Worker": {"replicas": SIZE - 1, "template": template}}
    spec = {"pytorchReplicaSpecs": replicas, **({"runPolicy": {"managedBy": managed_by}} if managed_by else {})}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": name}, "spec": spec}


def member(number: int, index: int) -> dict[str, Any]:
    """A pod that no operator creates."""
    spec = {"nodeName": f"node-{number % NODES}", "schedulerName": "another", "containers": [CONTAINER]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"f{number}-{index}"}, "spec": spec}


def other(number: int) -> dict[str, Any]:
    """A pod of another scheduler. The first NODES of them take all GPUs."""
    limits = {"cpu": "1", "memory": "1Gi", **({"nvidia.com/gpu": "8"} if number < NODES else {})}
    container = {"name": "main", "image": "example.com/other:1", "resources": {"limits": limits}}
    spec = {"nodeName": f"node-{number % NODES}", "schedulerName": "another", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"other-{number}"}, "spec": spec}


def node(number: int) -> dict[str, Any]:
    name = f"node-{number}"
    capacity = {"cpu": "128", "memory": "2Ti", "pods": "110", "nvidia.com/gpu": "8"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is ready"}
    status = {"capacity": capacity, "allocatable": capacity, "conditions": [ready]}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, "rack": f"r{number // 40}"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


async def add_node(api: Api, body: dict[str, Any]) -> None:
    await api.post("/api/v1/nodes", body)
    # the node is ready; in a cluster the node controller removes the taint of new nodes
    await api.patch(f"/api/v1/nodes/{body['metadata']['name']}", {"spec": {"taints": None}})


async def clear(api: Api) -> None:
    for path in (TRAINING, PYTORCH, PODS):
        names = [each["metadata"]["name"] for each in (await api.get(path))["items"]]
        await each_of(names, lambda name, path=path: api.delete(f"{path}/{name}", gracePeriodSeconds=0))


# Replicas.


def cpu(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> float:
    """Resident memory of a process in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmRSS"))) / 1024


if __name__ == "__main__":
    sys.exit(main())
