"""The process that holds a cluster in the background: `python -m windlass.controlplane.cluster_process FOLDER`.

It prints its steps, writes the facts of the cluster when that is ready, and ends everything on SIGTERM.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec

from . import cluster, kueue, real_nodes
from .build import BuildError, find
from .cluster import ControlPlane, Settings
from .cluster_folder import ClusterError, ClusterFolder, LastingSettings, Running, held, write_whole
from .fake_kubelet import FakeKubelets
from .fake_pod import ANNOTATION, Script, annotated
from .fake_status import Pod
from .processes import Server
from .real_nodes import RealCluster

FAKE_LABEL = {"windlass.dev/fake-node": "true"}
"""Label of nodes on which no container runs."""
FAKE_HEARTBEAT_S = 2.0
"""A quarter of the time after which the controller-manager takes a node for unreachable, as in Kubernetes."""
FLAVORS = "/apis/kueue.x-k8s.io/v1beta2/resourceflavors"
FLAVOR = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "probe"}}
"""An object that only Kueue's webhook lets through, as a dry run."""
FAKE_START_S, FAKE_WORK_S = 0.5, 20.0
"""On fake nodes: seconds until a pod is Running, and until one that may complete does so, unless its script differs."""


def main(root: Path) -> int:
    """Holds the cluster of a folder until SIGTERM. Returns the exit code."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    folder = ClusterFolder(root)
    try:
        with held(folder):
            try:
                hold(folder, msgspec.json.decode(folder.settings.read_bytes(), type=LastingSettings))
            finally:
                folder.clear()
    except KeyboardInterrupt:
        return 0
    except (ClusterError, BuildError, RuntimeError, OSError) as failed:
        _say(str(failed))
        return 1
    return 0


def hold(folder: ClusterFolder, settings: LastingSettings) -> None:
    """Starts a cluster, tells that it is ready, and ends it on SIGTERM. Raises RuntimeError."""
    began = time.time()
    # 1. servers, and nodes that run containers
    with _cluster(folder, settings) as (plane, real):
        # 2. files for programs that use it
        write_whole(folder.kubeconfig, plane.kubeconfig.read_bytes())
        folder.programs.mkdir()
        (folder.programs / "kubectl").symlink_to(find("kubectl"))
        # 3. fake nodes, Kueue, companions, then the facts
        running = _facts(plane, real, settings, began)
        asyncio.run(serve(folder, settings, plane, real, running))


@contextmanager
def _cluster(folder: ClusterFolder, settings: LastingSettings) -> Iterator[tuple[ControlPlane, RealCluster | None]]:
    if not settings.real:
        _say("start of etcd, API server, controller-manager and scheduler")
        with closing(cluster.start(folder.make_servers(), Settings(controllers=True))) as plane:
            yield plane, None
        return
    with closing(real_nodes.start(folder.make_servers(), _names(settings), settings.gpus, say=_say)) as real:
        real.know_images(*settings.images)
        yield real.plane, real


def _facts(plane: ControlPlane, real: RealCluster | None, settings: LastingSettings, began: float) -> Running:
    return Running(
        pid=os.getpid(),
        started=began,
        seconds=0.0,
        url=plane.url,
        nodes=_names(settings),
        real=real is not None,
        gpus=settings.gpus,
        kueue=settings.kueue,
        host_address=real.wire.address if real else "",
    )


def _names(settings: LastingSettings) -> list[str]:
    return [f"n{number}" for number in range(1, settings.nodes + 1)]


async def serve(
    folder: ClusterFolder, settings: LastingSettings, plane: ControlPlane, real: RealCluster | None, running: Running
) -> None:
    """Runs what a ready cluster has beside its servers, and waits for SIGTERM."""
    enough = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, enough.set)
    async with AsyncExitStack() as parts:
        if real is None:
            kubelets = FakeKubelets(plane.admin, start=FAKE_START_S, heartbeat=FAKE_HEARTBEAT_S, script_of=script_of)
            fake = await parts.enter_async_context(kubelets)
            await fake.add_nodes(running.nodes, gpus=settings.gpus, labels=lambda _: FAKE_LABEL)
        servers = real.servers if real else []
        if settings.kueue:
            servers += await _start_kueue(plane, settings.external_kinds, parts)
        companions = [_companion(folder, name, command) for name, command in settings.companions.items()]
        write_whole(folder.facts, msgspec.json.encode(replace(running, seconds=time.time() - running.started)))
        for each in companions:
            each.start()
            parts.callback(each.stop)
        await parts.enter_async_context(plane.kept_running(*servers, *companions))
        await enough.wait()
        folder.facts.unlink(missing_ok=True)
        _say("end of the cluster")


def script_of(pod: Pod) -> Script:
    """The script of a pod on a fake node: that of its annotation, else an end after seconds if it may complete."""
    if ANNOTATION in pod["metadata"].get("annotations", {}):
        return annotated(pod)
    return Script(work=None if pod["spec"].get("restartPolicy", "Always") == "Always" else FAKE_WORK_S)


async def _start_kueue(plane: ControlPlane, external: Sequence[str], parts: AsyncExitStack) -> list[Server]:
    _say("start of Kueue and the controller of JobSets")
    async with plane.api() as api:
        await kueue.install_kueue(api)
        servers = parts.enter_context(kueue.kueue_servers(plane, external))
        await kueue.register_webhooks(api, plane, servers)
        await kueue.until_answered(api, f"{FLAVORS}?dryRun=All", FLAVOR, servers)
    return list(servers)


def _companion(folder: ClusterFolder, name: str, command: Sequence[str]) -> Server:
    log = folder.companion_log(name)
    log.unlink(missing_ok=True)
    return Server(name, command, log, env={"KUBECONFIG": str(folder.kubeconfig)})


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
