"""Observes every change: pods in the API server, and running containers of the kubelets."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

import aiohttp

from windlass.controlplane.api import Api, ApiError
from windlass.controlplane.fake_kubelet import FakeKubelets
from windlass.jobs.kubernetes.pods.pod_assembly import GENERATION

from .jobs import GPU

PODS = "/api/v1/pods"
AGAIN = 0.1


class Witness:
    """Records violations.

    `doubles`: two generations of a gang were alive at once. `overbooked`: more of a node was allocated than it has;
    `overfull`: more of it was used.
    """

    def __init__(self, api: Api, kubelets: FakeKubelets) -> None:
        self._api, self._kubelets = api, kubelets
        self.pods: dict[str, dict[str, Any]] = {}
        self.doubles: list[str] = []
        self.overbooked: list[str] = []
        self.overfull: list[str] = []
        self.bound = 0
        """Pods that were put on a node."""
        self._watching: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._watching = asyncio.create_task(self._watch())
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        assert self._watching is not None
        self._watching.cancel()
        await asyncio.gather(self._watching, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            try:
                listed = await self._api.get(PODS)
                self.pods = {each["metadata"]["uid"]: each for each in listed["items"]}
                version = listed["metadata"]["resourceVersion"]
                while True:
                    async for event in self._api.watch(PODS, version):
                        version = event["object"]["metadata"]["resourceVersion"]
                        self._see(event["type"], event["object"])
            except (ApiError, aiohttp.ClientError, OSError):
                await asyncio.sleep(AGAIN)

    def _see(self, kind: str, pod: dict[str, Any]) -> None:
        if kind == "BOOKMARK":
            return
        uid = pod["metadata"]["uid"]
        before = self.pods.pop(uid, None)
        if kind != "DELETED":
            self.pods[uid] = pod
            self.bound += bool(pod["spec"].get("nodeName")) and not (before and before["spec"].get("nodeName"))
        self._look_at_nodes()
        self._look_at_generations()

    def _look_at_nodes(self) -> None:
        """Checks devices: bound pods that have not ended allocate them, and live containers use them."""
        given = [pod for pod in self.pods.values() if pod["status"]["phase"] in ("Pending", "Running")]
        for pods, noted, word in (
            (given, self.overbooked, "given away"),
            (self._kubelets.alive(), self.overfull, "used"),
        ):
            for name, count in by_node(pods).items():
                node = self._kubelets.nodes.get(name)
                if node is not None and count > node.devices.get(GPU, 0):
                    noted.append(f"{name} has {node.devices.get(GPU, 0)} devices, {count} are {word}")

    def _look_at_generations(self) -> None:
        """Checks for containers of two generations of one gang, as kubelets see them."""
        alive: dict[tuple[str, str], set[str]] = defaultdict(set)
        for pod in self._kubelets.alive():
            owners = pod["metadata"].get("ownerReferences")
            if owners and (generation := pod["metadata"].get("labels", {}).get(GENERATION)):
                alive[owners[0]["uid"], owners[0]["name"]].add(generation)
        for (_, name), generations in alive.items():
            if len(generations) > 1:
                self.doubles.append(f"{name} lives in generations {sorted(generations)} at once")


def devices(pod: dict[str, Any]) -> int:
    limits = (each.get("resources", {}).get("limits", {}) for each in pod["spec"]["containers"])
    return sum(int(each.get(GPU, 0)) for each in limits)


def by_node(pods: Iterable[dict[str, Any]]) -> Counter[str]:
    """The devices that these pods have of each node."""
    taken: Counter[str] = Counter()
    for pod in pods:
        if node := pod["spec"].get("nodeName"):
            taken[node] += devices(pod)
    return taken
