"""Starts the Kubernetes control plane of labs and tests for use by hand.

    tools/control_plane.py up                        etcd and an API server; Ctrl-C stops them and removes their files
    tools/control_plane.py up --nodes 1000           and 1000 fake nodes, on which bound pods run
    tools/control_plane.py up --controllers          and a controller-manager
    tools/control_plane.py up --real --image a/b:1  and two nodes that run containers and have this image
    tools/control_plane.py build kubectl kubelet     only build programs; without a name, all programs

Prints the administrator's kubeconfig: `kubectl --kubeconfig FILE get nodes`; kubectl itself is one of the programs.
"""

import argparse
import asyncio
import contextlib
import math
import signal
import sys
import tempfile
import time
from pathlib import Path

from windlass.controlplane import cluster, real_nodes
from windlass.controlplane.build import BuildError, find, find_all
from windlass.controlplane.fake_kubelet import FakeKubelets, names
from windlass.controlplane.programs import PROGRAMS


def main() -> int:
    options = parser().parse_args()
    try:
        return options.verb(options)
    except (BuildError, RuntimeError) as failed:
        print(failed, file=sys.stderr)
        return 1


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = top.add_subparsers(required=True, metavar="VERB")
    build = verbs.add_parser("build", help="build programs into the cache")
    build.add_argument("programs", nargs="*", metavar="PROGRAM", help=", ".join(PROGRAMS))
    build.set_defaults(verb=build_programs)
    up = verbs.add_parser("up", help="start a control plane, until Ctrl-C")
    up.add_argument("--controllers", action="store_true", help="with a controller-manager")
    up.add_argument("--real", action="store_true", help="with a controller-manager and two real nodes (root only)")
    up.add_argument("--image", action="append", default=[], help="another name of the real nodes' image")
    up.add_argument("--fsync", action="store_true", help="etcd waits for the disk, as in production")
    up.add_argument("--nodes", type=int, default=0, help="number of fake nodes (default 0)")
    up.add_argument("--gpus", type=int, default=8, help="GPUs of each node (default 8)")
    up.add_argument("--start", type=float, default=0.0, help="seconds from a pod's binding to Running (default 0)")
    up.add_argument("--heartbeat", type=float, default=10.0, help="seconds between renewals of a lease; 0: never")
    up.add_argument("--kubeconfig", type=Path, help="also write the kubeconfig to this file when all is ready")
    up.set_defaults(verb=bring_up)
    return top


def build_programs(options: argparse.Namespace) -> int:
    if unknown := set(options.programs) - PROGRAMS.keys():
        print(f"no such program: {', '.join(sorted(unknown))}; known programs: {', '.join(PROGRAMS)}", file=sys.stderr)
        return 2
    find_all(options.programs or list(PROGRAMS))
    return 0


def bring_up(options: argparse.Namespace) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    settings = cluster.Settings(
        controllers=options.controllers, fsync=options.fsync, node_grace=grace_of(options.heartbeat)
    )
    with tempfile.TemporaryDirectory(prefix="windlass-") as folder, contextlib.suppress(KeyboardInterrupt):
        place = Path(folder) / "plane"
        if not options.real:
            with contextlib.closing(cluster.start(place, settings)) as plane:
                asyncio.run(serve(plane, options))
        elif lacking := real_nodes.missing_requirement():
            raise RuntimeError(lacking)
        else:
            with contextlib.closing(real_nodes.start(place, gpus=options.gpus, settings=settings)) as real:
                real.know_images(*options.image)
                asyncio.run(serve(real.plane, options))
    return 0


def grace_of(heartbeat: float) -> int:
    """Seconds after which a node that renews its lease at this interval is taken for unreachable: four intervals.

    Kubernetes has the same proportion, 40 s to 10 s.
    """
    return max(cluster.Settings().node_grace, math.ceil(4 * heartbeat))


async def serve(plane: cluster.ControlPlane, options: argparse.Namespace) -> None:
    enough = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, enough.set)
    for name, seconds in plane.took.items():
        print(f"{name} ready in {seconds:.1f} s")
    kubelets = FakeKubelets(plane.admin, start=options.start, heartbeat=options.heartbeat)
    async with kubelets as fake:
        if options.nodes:
            began = time.monotonic()
            await fake.add_nodes(names(options.nodes), gpus=options.gpus)
            print(f"{options.nodes} fake nodes in {time.monotonic() - began:.1f} s")
        if options.kubeconfig:
            options.kubeconfig.write_bytes(plane.kubeconfig.read_bytes())
        print(f"{find('kubectl')} --kubeconfig {plane.kubeconfig}", flush=True)
        await enough.wait()


if __name__ == "__main__":
    sys.exit(main())
