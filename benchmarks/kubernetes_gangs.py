"""Gangs of pods of other controllers, bound on a real API server, against kube-scheduler with and without its gangs.

200 gangs of 8 pods of one GPU on 1,000 nodes of 8, all schedulers in turn on the same cluster, each a process of its
own, without limits on its client. Groups are native PodGroups. etcd does not wait for the disk; nodes are objects
without kubelets.
"""

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import aiohttp

from clusters.benchmark_plane import each_of, run_on_plane
from windlass.controlplane.api import Api, ApiError
from windlass.controlplane.build import find
from windlass.controlplane.cluster import ControlPlane, Settings
from windlass.controlplane.processes import free_port, spawn
from windlass.controlplane.programs import CONTROLLERS

NODES, GANGS, SIZE, ROUNDS, SINGLE = 1_000, 200, 8, 3, 30
PODS = "/api/v1/namespaces/default/pods"
GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
GATES = "GenericWorkload=true,GangScheduling=true"
NATIVE = (f"--feature-gates={GATES}", "--runtime-config=scheduling.k8s.io/v1alpha2=true")
PEER = "kube-scheduler 1.36, native gangs"


@dataclass(frozen=True)
class Competitor:
    """A scheduler."""

    name: str
    scheduler: str
    """`schedulerName` of its pods."""
    groups: bool = True


OURS = Competitor("windlass", "windlass")
GANG_PEER = Competitor(PEER, "default-scheduler")
PLAIN_PEER = Competitor("kube-scheduler 1.36 without gangs", "default-scheduler", groups=False)
COMPETITORS = (OURS, GANG_PEER, PLAIN_PEER)


def main() -> int:
    if len(sys.argv) == 2:
        asyncio.run(schedule(sys.argv[1]))
        return 0
    settings = Settings(apiserver_flags=NATIVE)
    return run_on_plane(CONTROLLERS, lambda plane, _folder: report(asyncio.run(measured(plane))), settings)


Figures = dict[str, list[float]]


async def measured(plane: ControlPlane) -> dict[str, Figures]:
    """By scheduler: pods/s of a burst created before it starts, and of one created while it runs; ms of one gang."""
    found: dict[str, Figures] = {each.name: {"before": [], "online": [], "one": []} for each in COMPETITORS}
    async with plane.api() as api:
        await each_of(range(NODES), lambda number: add_node(api, node(number)))
        for _ in range(ROUNDS):
            for competitor in COMPETITORS:
                figures = found[competitor.name]
                figures["before"].append(await before(plane, api, competitor))
                with scheduler(plane, competitor):
                    figures["online"].append(await online(api, competitor))
                    figures["one"] += await one_by_one(api, competitor) if competitor is not PLAIN_PEER else []
                print(
                    competitor.name,
                    {name: [round(v) for v in all][-5:] for name, all in figures.items()},
                    file=sys.stderr,
                )
    return found


def report(found: dict[str, Figures]) -> None:
    many = f"{GANGS} gangs × {SIZE} pods, {NODES:,} nodes × 8 GPUs"
    for claim, key, target, unit, better in (
        (f"{many}, created before the start: first to last binding", "before", 800, "pods/s", "higher"),
        (f"{many}, created while running: first to last binding", "online", 800, "pods/s", "higher"),
        (f"gang of {SIZE} created → bound, idle cluster of {NODES:,} nodes", "one", 50, "ms", "lower"),
    ):
        line = {"claim": claim, "measured": statistics.median(found[OURS.name][key]), "unit": unit, "target": target}
        for peer in (GANG_PEER, PLAIN_PEER):
            if values := found[peer.name][key]:
                beside = {"peer": peer.name, "peer_measured": statistics.median(values)}
                print(json.dumps({**line, "better": better, **beside}))


# Measurements.


async def before(plane: ControlPlane, api: Api, competitor: Competitor) -> float:
    """Pods per second when all pods exist before the scheduler starts."""
    await each_of(range(GANGS), lambda number: create_gang(api, competitor, f"b{number}"))
    async with Binds(api) as binds:
        with scheduler(plane, competitor):
            rate = await binds.rate(GANGS * SIZE)
    await clear(api)
    return rate


async def online(api: Api, competitor: Competitor) -> float:
    async with Binds(api) as binds:
        making = asyncio.create_task(each_of(range(GANGS), lambda number: create_gang(api, competitor, f"o{number}")))
        rate = await binds.rate(GANGS * SIZE)
        await making
    await clear(api)
    return rate


async def one_by_one(api: Api, competitor: Competitor) -> list[float]:
    """Milliseconds from the first request that creates a gang to its last binding, gang after gang."""
    took = []
    async with Binds(api) as binds:
        for number in range(SINGLE):
            began = time.perf_counter()
            await create_gang(api, competitor, f"s{number}")
            took.append((await binds.until((number + 1) * SIZE) - began) * 1000)
            await asyncio.sleep(0.05)
    await clear(api)
    return took


class Binds:
    """Watches the pods that are bound from now on."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.times: dict[str, float] = {}
        self._more = asyncio.Event()

    async def __aenter__(self) -> Self:
        listed = await self._api.get(PODS, limit=1)
        self._task = asyncio.create_task(self._watch(listed["metadata"]["resourceVersion"]))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self, version: str) -> None:
        while True:  # the server closes the watch of a slow reader
            async for event in self._api.watch(PODS, version, fieldSelector="spec.nodeName!="):
                version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] == "ADDED":
                    self.times[event["object"]["metadata"]["name"]] = time.perf_counter()
                    self._more.set()

    async def until(self, count: int) -> float:
        """Time at which `count` pods were bound."""
        while len(self.times) < count:
            self._more.clear()
            async with asyncio.timeout(120):
                await self._more.wait()
        return max(self.times.values())

    async def rate(self, count: int) -> float:
        last = await self.until(count)
        return count / (last - min(self.times.values()))


# Objects.


async def create_gang(api: Api, competitor: Competitor, name: str) -> None:
    if competitor.groups:
        await post(api, GROUPS, group(name))
    await asyncio.gather(*(post(api, PODS, pod(competitor, name, index)) for index in range(SIZE)))


async def post(api: Api, path: str, body: dict[str, Any]) -> None:
    """Create an object. A busy API server may close the connection, whether the object was created or not."""
    while True:
        try:
            await api.post(path, body)
        except aiohttp.ClientError:
            continue
        except ApiError as failed:
            if failed.status != 409:
                raise
        return


def group(name: str) -> dict[str, Any]:
    spec = {"schedulingPolicy": {"gang": {"minCount": SIZE}}}
    return {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


def pod(competitor: Competitor, gang: str, index: int) -> dict[str, Any]:
    resources = {"limits": {"nvidia.com/gpu": "1", "cpu": "4", "memory": "16Gi"}}
    spec = {
        "schedulerName": competitor.scheduler,
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "example.com/train:1", "resources": resources}],
        **({"schedulingGroup": {"podGroupName": gang}} if competitor.groups else {}),
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{gang}-{index}"}, "spec": spec}


def node(number: int) -> dict[str, Any]:
    name = f"node-{number}"
    labels = {"kubernetes.io/hostname": name, "rack": f"r{number // 40}"}
    capacity = {"cpu": "128", "memory": "2Ti", "pods": "110", "nvidia.com/gpu": "8"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is ready"}
    status = {"capacity": capacity, "allocatable": capacity, "conditions": [ready]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


async def add_node(api: Api, body: dict[str, Any]) -> None:
    await api.post("/api/v1/nodes", body)
    # the node is ready; in a cluster the node controller removes the taint of new nodes
    await api.patch(f"/api/v1/nodes/{body['metadata']['name']}", {"spec": {"taints": None}})


async def clear(api: Api) -> None:
    await each_of(await names(api, PODS), lambda name: api.delete(f"{PODS}/{name}", gracePeriodSeconds=0))
    await each_of(await names(api, GROUPS), lambda name: remove(api, f"{GROUPS}/{name}"))
    await asyncio.sleep(2)  # until the watches of the schedulers have the deletions


async def names(api: Api, path: str) -> list[str]:
    return [each["metadata"]["name"] for each in (await api.get(path))["items"]]


async def remove(api: Api, path: str) -> None:
    """Delete a group after its finalizer; no controller runs here that would remove the finalizer."""
    await api.patch(path, {"metadata": {"finalizers": None}})
    await api.delete(path)


# Schedulers.


@contextmanager
def scheduler(plane: ControlPlane, competitor: Competitor) -> Iterator[None]:
    """Run a scheduler; returns as soon as its process exists."""
    log = plane.folder / "scheduler.log"
    process = spawn(ours(plane) if competitor is OURS else theirs(plane), log)
    try:
        yield
    except BaseException:
        print(log.read_text()[-3_000:], file=sys.stderr)
        raise
    finally:
        process.kill()
        process.wait()


def ours(plane: ControlPlane) -> list[str]:
    return [sys.executable, __file__, str(plane.kubeconfig)]


def theirs(plane: ControlPlane) -> list[str]:
    settings = plane.folder / "scheduler.json"
    settings.write_text(
        json.dumps(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "clientConnection": {"kubeconfig": str(plane.kubeconfig), "qps": 5_000, "burst": 10_000},
                "leaderElection": {"leaderElect": False},
            }
        )
    )
    flags = [f"--config={settings}", f"--feature-gates={GATES}", "--bind-address=127.0.0.1"]
    ports = [f"--secure-port={free_port()}", f"--cert-dir={plane.folder}"]
    files = [f"--{what}-kubeconfig={plane.kubeconfig}" for what in ("authentication", "authorization")]
    return [str(find("kube-scheduler")), *flags, *ports, *files]


async def schedule(kubeconfig: str) -> None:
    """Run the backend and its controller like the operator."""
    from windlass.backends.kubernetes.backend import KubernetesBackend  # noqa: PLC0415 - the measuring process stays small
    from windlass.backends.kubernetes.client.access import from_kubeconfig  # noqa: PLC0415
    from windlass.backends.kubernetes.client.connection import Connection  # noqa: PLC0415
    from windlass.backends.kubernetes.served_kinds import served_kinds  # noqa: PLC0415
    from windlass.backends.kubernetes.watches import watch_all  # noqa: PLC0415
    from windlass.controller.controller import Controller, run  # noqa: PLC0415

    async with Connection(from_kubeconfig(kubeconfig)) as connection:
        backend = KubernetesBackend(connection, lambda: time.time_ns() // 1_000_000, on_trouble=print)
        ready = asyncio.Event()
        watching = asyncio.create_task(watch_all(backend, await served_kinds(connection), ready.set))
        await asyncio.wait([watching, asyncio.create_task(ready.wait())], return_when="FIRST_COMPLETED")
        if watching.done():
            watching.result()
        await run(Controller(backend.recover(), backend.finished), backend, on_trouble=print)


if __name__ == "__main__":
    sys.exit(main())
