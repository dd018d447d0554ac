"""Gangs of pods that others make, bound on a real API server, beside kube-scheduler with its own gangs and without.

200 gangs of 8 pods of one GPU on 1,000 nodes of 8, all schedulers in turn on the same cluster, each a process of its
own, without limits on its client. Groups are in kube-scheduler's own dialect. etcd does not wait for the disk; nodes
are objects without kubelets.
"""

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/kubernetes"))

import aiohttp
from controlplane.api import Api, ApiError
from controlplane.build import BuildError, find, find_all
from controlplane.cluster import ControlPlane, Settings, start
from controlplane.processes import free_port, spawn
from controlplane.programs import CONTROLLERS

NODES, GANGS, SIZE, AT_ONCE, ROUNDS, SINGLE = 1_000, 200, 8, 16, 3, 30
PODS = "/api/v1/namespaces/default/pods"
GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
GATES = "GenericWorkload=true,GangScheduling=true"
NATIVE = (f"--feature-gates={GATES}", "--runtime-config=scheduling.k8s.io/v1alpha2=true")
PEER = "kube-scheduler 1.36, native gangs"


@dataclass(frozen=True)
class Contestant:
    """A scheduler."""

    name: str
    scheduler: str
    """What pods call it."""
    groups: bool = True


OURS = Contestant("windlass", "windlass")
GANG_PEER = Contestant(PEER, "default-scheduler")
PLAIN_PEER = Contestant("kube-scheduler 1.36 without gangs", "default-scheduler", groups=False)
CONTESTANTS = (OURS, GANG_PEER, PLAIN_PEER)


def main() -> int:
    if len(sys.argv) == 2:
        asyncio.run(schedule(sys.argv[1]))
        return 0
    try:
        find_all(CONTROLLERS)
    except BuildError as failed:
        print(failed, file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        plane = start(Path(folder) / "plane", Settings(apiserver_flags=NATIVE))
        try:
            tell(asyncio.run(measured(plane)))
        finally:
            plane.close()
    return 0


Figures = dict[str, list[float]]


async def measured(plane: ControlPlane) -> dict[str, Figures]:
    """By contestant: pods/s of a burst that was there before, and of one that comes; ms of one gang."""
    found: dict[str, Figures] = {each.name: {"before": [], "online": [], "one": []} for each in CONTESTANTS}
    async with plane.api() as api:
        await each_of(range(NODES), lambda number: add_node(api, node(number)))
        for _ in range(ROUNDS):
            for who in CONTESTANTS:
                figures = found[who.name]
                figures["before"].append(await before(plane, api, who))
                with scheduler(plane, who):
                    figures["online"].append(await online(api, who))
                    figures["one"] += await one_by_one(api, who) if who is not PLAIN_PEER else []
                print(who.name, {name: [round(v) for v in all][-5:] for name, all in figures.items()}, file=sys.stderr)
    return found


def tell(found: dict[str, Figures]) -> None:
    many = f"{GANGS} gangs × {SIZE} pods, {NODES:,} nodes × 8 GPUs"
    for claim, key, target, unit, better in (
        (f"{many}, there before: first to last bind", "before", 800, "pods/s", "higher"),
        (f"{many}, coming in: first to last bind", "online", 800, "pods/s", "higher"),
        (f"gang of {SIZE} made → bound, idle cluster of {NODES:,} nodes", "one", 50, "ms", "lower"),
    ):
        line = {"claim": claim, "measured": statistics.median(found[OURS.name][key]), "unit": unit, "target": target}
        for peer in (GANG_PEER, PLAIN_PEER):
            if values := found[peer.name][key]:
                beside = {"peer": peer.name, "peer_measured": statistics.median(values)}
                print(json.dumps({**line, "better": better, **beside}))


# What is measured.


async def before(plane: ControlPlane, api: Api, who: Contestant) -> float:
    """Everything is there when the scheduler begins to look."""
    await each_of(range(GANGS), lambda number: make(api, who, f"b{number}"))
    async with Binds(api) as binds:
        with scheduler(plane, who):
            rate = await binds.rate(GANGS * SIZE)
    await clear(api)
    return rate


async def online(api: Api, who: Contestant) -> float:
    async with Binds(api) as binds:
        making = asyncio.create_task(each_of(range(GANGS), lambda number: make(api, who, f"o{number}")))
        rate = await binds.rate(GANGS * SIZE)
        await making
    await clear(api)
    return rate


async def one_by_one(api: Api, who: Contestant) -> list[float]:
    """Ms from the first request to make a gang to the last bind of it, one after the other."""
    took = []
    async with Binds(api) as binds:
        for number in range(SINGLE):
            began = time.perf_counter()
            await make(api, who, f"s{number}")
            took.append((await binds.until((number + 1) * SIZE) - began) * 1000)
            await asyncio.sleep(0.05)
    await clear(api)
    return took


class Binds:
    """Watches pods that are on a node, from now on."""

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
        while True:  # whoever is slow is cut off, and goes on
            async for event in self._api.watch(PODS, version, fieldSelector="spec.nodeName!="):
                version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] == "ADDED":
                    self.times[event["object"]["metadata"]["name"]] = time.perf_counter()
                    self._more.set()

    async def until(self, count: int) -> float:
        """When so many were bound."""
        while len(self.times) < count:
            self._more.clear()
            async with asyncio.timeout(120):
                await self._more.wait()
        return max(self.times.values())

    async def rate(self, count: int) -> float:
        last = await self.until(count)
        return count / (last - min(self.times.values()))


# Objects.


async def make(api: Api, who: Contestant, name: str) -> None:
    if who.groups:
        await post(api, GROUPS, group(name))
    await asyncio.gather(*(post(api, PODS, pod(who, name, index)) for index in range(SIZE)))


async def post(api: Api, path: str, body: dict[str, Any]) -> None:
    """A busy API server may hang up, with the object made or not."""
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


def pod(who: Contestant, gang: str, index: int) -> dict[str, Any]:
    resources = {"limits": {"nvidia.com/gpu": "1", "cpu": "4", "memory": "16Gi"}}
    spec = {
        "schedulerName": who.scheduler,
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "example.com/train:1", "resources": resources}],
        **({"schedulingGroup": {"podGroupName": gang}} if who.groups else {}),
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
    # the node is ready, and a node controller takes off the taint of new nodes
    await api.patch(f"/api/v1/nodes/{body['metadata']['name']}", {"spec": {"taints": None}})


async def clear(api: Api) -> None:
    await each_of(await names(api, PODS), lambda name: api.delete(f"{PODS}/{name}", gracePeriodSeconds=0))
    await each_of(await names(api, GROUPS), lambda name: remove(api, f"{GROUPS}/{name}"))
    await asyncio.sleep(2)  # for whoever is to hear of it


async def names(api: Api, path: str) -> list[str]:
    return [each["metadata"]["name"] for each in (await api.get(path))["items"]]


async def remove(api: Api, path: str) -> None:
    """Nobody runs here who would take off the finalizer that protects groups with pods."""
    await api.patch(path, {"metadata": {"finalizers": None}})
    await api.delete(path)


async def each_of(things: Iterable[Any], do: Callable[[Any], Awaitable[Any]]) -> None:
    """All of them, so many at once."""
    rest = iter(things)

    async def work() -> None:
        for thing in rest:
            await do(thing)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))


# Schedulers.


@contextmanager
def scheduler(plane: ControlPlane, who: Contestant) -> Iterator[None]:
    """Run it; returns as soon as its process is there."""
    log = plane.folder / "scheduler.log"
    process = spawn(ours(plane) if who is OURS else theirs(plane), log)
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
    """The world and its controller, as the operator runs them."""
    from windlass import controller  # noqa: PLC0415 - only here: the measuring process stays small
    from windlass.backends.kubernetes.backend import KubernetesBackend  # noqa: PLC0415
    from windlass.backends.kubernetes.client.access import from_kubeconfig  # noqa: PLC0415
    from windlass.backends.kubernetes.client.connection import Connection  # noqa: PLC0415
    from windlass.backends.kubernetes.served_kinds import served_kinds  # noqa: PLC0415
    from windlass.backends.kubernetes.watches import watch_all  # noqa: PLC0415

    async with Connection(from_kubeconfig(kubeconfig)) as connection:
        world = KubernetesBackend(connection, lambda: time.time_ns() // 1_000_000, on_trouble=print)
        ready = asyncio.Event()
        watching = asyncio.create_task(watch_all(world, await served_kinds(connection), ready.set))
        await asyncio.wait([watching, asyncio.create_task(ready.wait())], return_when="FIRST_COMPLETED")
        if watching.done():
            watching.result()
        await controller.run(controller.Controller(world.recover(), world.finished), world, on_trouble=print)


if __name__ == "__main__":
    sys.exit(main())
