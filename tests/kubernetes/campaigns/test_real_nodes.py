"""Kubelets and containerds of real nodes are killed or stopped while jobs run; the same witness judges.

WINDLASS_NODE_SCHEDULES is the number of schedules: none in `make test`, 10 in `make soak-kubernetes`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from random import Random

import pytest
from e2e.operators import beside
from e2e.user import IMAGE, NEW_KIND
from planes.tidy import clear

from windlass.controlplane.api import Api, ApiError
from windlass.controlplane.cluster import RESTARTED_AFTER
from windlass.controlplane.real_nodes import READY_WITHIN, RealCluster, RealNode

from . import load
from .campaign import until_settled
from .cluster_view import Verb
from .judge import Judge
from .observer import Observer
from .schedule import Arrival

COUNT = int(os.environ.get("WINDLASS_NODE_SCHEDULES", "0"))
FIRST = int(os.environ.get("WINDLASS_FIRST_SEED", "1"))
LOADS = ("training_job", "failing_training_job", "pytorch_job", "tf_job", "jax_job", "batch_job", "sized_gang")
SPAN_S, FAULTS, LONGEST_S = 12.0, 2, 4.0
"""Seconds of a schedule, its faults, and the length of each: a node counts as unreachable after 8 s."""
WINDOW_S = 30.0
SETTLED_WITHIN_S = 240.0


def _killed(server: str) -> Callable[[RealNode], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def killed(node: RealNode) -> AsyncIterator[None]:
        """Ends the program with SIGKILL and starts it again; containers run on."""
        program = getattr(node, server)
        program.kill()
        try:
            yield
        finally:
            program.start()

    return killed


@asynccontextmanager
async def kubelet_stopped(node: RealNode) -> AsyncIterator[None]:
    node.kubelet.pause()
    try:
        yield
    finally:
        node.kubelet.proceed()


NODE_FAULTS = {
    "kubelet_killed": _killed("kubelet"),
    "containerd_killed": _killed("containerd"),
    "kubelet_stopped": kubelet_stopped,
}


@pytest.mark.skipif(COUNT == 0, reason="part of make soak-kubernetes: WINDLASS_NODE_SCHEDULES")
@pytest.mark.timeout(900 + 300 * COUNT)
def test_no_fault_of_a_kubelet_or_a_containerd_violates_what_is_promised(
    real_nodes: RealCluster, tmp_path: Path
) -> None:
    async def whole() -> list[str]:
        found = []
        async with real_nodes.plane.api() as api:
            for seed in range(FIRST, FIRST + COUNT):
                try:
                    found += [f"seed {seed}: {each}" for each in await run_schedule(api, real_nodes, seed)]
                finally:
                    await clear(api, *(path for path in load.CREATED if path not in load.GROUPS), nodes=False)
        return found

    with beside(real_nodes, tmp_path) as log:
        found = asyncio.run(whole())
        assert not found, "\n\n".join([*found, log.read_text()[-4000:]])


@asynccontextmanager
async def kept_running(real: RealCluster) -> AsyncIterator[None]:
    """Starts kubelets and containerds that end by themselves again, as systemd does on a cluster.

    A kubelet ends if it finds no containerd as it starts.
    """

    async def keep() -> None:
        while True:
            for node in real.nodes:
                node.kubelet.restart_if_ended()
                node.containerd.restart_if_ended()
            await asyncio.sleep(RESTARTED_AFTER)

    task = asyncio.create_task(keep())
    try:
        yield
    finally:
        task.cancel()


async def until_ready(real: RealCluster) -> None:
    async with asyncio.timeout(READY_WITHIN):
        for node in real.nodes:
            while not await real.is_ready(node):  # noqa: ASYNC110 - polled
                await asyncio.sleep(0.1)


async def run_schedule(api: Api, real: RealCluster, seed: int) -> list[str]:
    rng = Random(seed)  # noqa: S311 - faults, not secrets
    arrivals = [Arrival(rng.uniform(0, SPAN_S / 2), each, 2, rng.uniform(1, 6)) for each in rng.sample(LOADS, 4)]
    faults = [(rng.uniform(0, SPAN_S), rng.choice(list(NODE_FAULTS)), rng.uniform(1, LONGEST_S)) for _ in range(FAULTS)]
    sys.stdout.write(
        f"seed {seed}: {', '.join(f'{at:.1f} s {name} for {length:.1f} s' for at, name, length in faults)}\n"
    )
    judge, one_at_a_time = Judge(window=WINDOW_S), asyncio.Lock()

    async def create(number: int, arrival: Arrival) -> None:
        await asyncio.sleep(arrival.at)
        for each in load.gang(f"s{seed}-{number}-{arrival.load.replace('_', '-')}", arrival):
            await post(api, load.path(each), for_containers(each))

    async def inflict(at: float, name: str, length: float) -> None:
        await asyncio.sleep(at)
        async with one_at_a_time:
            observer.observe(Verb.DISTURBED, name)
            async with NODE_FAULTS[name](rng.choice(real.nodes)):
                await asyncio.sleep(length)
            await until_ready(real)
            observer.observe(Verb.CALM, name)

    async with kept_running(real), Observer(api, judge, load.PATHS) as observer:
        async with asyncio.TaskGroup() as group:
            for number, arrival in enumerate(arrivals):
                group.create_task(create(number, arrival))
            for fault in faults:
                group.create_task(inflict(*fault))
        await until_settled(observer, SETTLED_WITHIN_S)
    return [str(each) for each in judge.close()]


async def post(api: Api, path: str, manifest: load.Manifest) -> None:
    """Creates an object as soon as the API server knows its kind."""
    async with asyncio.timeout(WINDOW_S):
        while True:
            try:
                await api.post(path, manifest)
            except ApiError as refused:
                if NEW_KIND not in str(refused):
                    raise
                await asyncio.sleep(0.2)
            else:
                return


def for_containers(manifest: load.Manifest) -> load.Manifest:
    """The manifest with programs that a container can run.

    containerd reports code 255 for a container that ended while it was down. Under Never, the default of JAXJob and
    TFJob, that ends the job; under ExitCode it does not.
    """

    def real(value: object) -> object:
        if isinstance(value, dict):
            return {key: IMAGE if key == "image" else real(each) for key, each in value.items()}
        if isinstance(value, list) and value[:1] == ["work"]:
            return ["sh", "-c", f"sleep {value[1]}; exit {value[2]}"]
        return [real(each) for each in value] if isinstance(value, list) else value

    changed = real(manifest)
    assert isinstance(changed, dict)
    for field in ("jaxReplicaSpecs", "tfReplicaSpecs"):
        for replicas in changed["spec"].get(field, {}).values():
            replicas["restartPolicy"] = "ExitCode"
    return changed
