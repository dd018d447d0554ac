"""The operator for these tests: as the installed deployment, or as a process outside the cluster."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from controlplane.images import OPERATOR
from controlplane.processes import Server
from controlplane.real_nodes import RealCluster

from e2e.user import IMAGE, WINDLASS, User
from windlass.backends.kubernetes.client.access import from_kubeconfig
from windlass.backends.kubernetes.client.connection import Connection
from windlass.deploy.install.installer import apply
from windlass.deploy.installation import installation_objects
from windlass.deploy.operator import Setup
from windlass.jobs.kubernetes.operator_names import NAMESPACE

IMAGES = (IMAGE, "alpine:3.10")
"""The second is what a PyTorchJob's workers wait for their master with."""
_INSIDE = ("Deployment", "PodDisruptionBudget", "Service")


@contextmanager
def deployed(real: RealCluster) -> Iterator[None]:
    """Runs the deployment on the nodes: with its service account and role, in a restricted namespace, with probes."""
    real.know_images(*IMAGES)
    admin = User(real.plane.kubeconfig, NAMESPACE)
    admin.windlass("operator", "install", "--image", OPERATOR, "--replicas", "1", "--wait", "240")
    try:
        yield
    finally:
        admin.windlass("operator", "uninstall", "--delete-jobs", "--yes")


@contextmanager
def beside(real: RealCluster, folder: Path) -> Iterator[Path]:
    """Runs the operator in a process that outlives every node, with the same permissions. Yields its log."""
    real.know_images(*IMAGES)
    log = folder / "operator.log"
    server = Server("operator", asyncio.run(_command(real, folder)), log)
    server.start()
    try:
        while "leading" not in log.read_text():
            server.check_running()
            time.sleep(0.1)
        yield log
    finally:
        server.stop()


async def _command(real: RealCluster, folder: Path) -> list[str | Path]:
    async with Connection(from_kubeconfig(str(real.plane.kubeconfig))) as connection:
        objects = [each for each in installation_objects(Setup(OPERATOR)) if each["kind"] not in _INSIDE]
        async for _ in apply(connection, objects):
            pass
    account = await real.plane.service_account(NAMESPACE, "windlass-operator")
    run: list[str | Path] = [WINDLASS, "operator", "run", "--kubeconfig", account]
    faces = ["--metrics-host", "127.0.0.1", "--metrics-port", "0", "--address", "http://127.0.0.1:0"]
    return [*run, *faces, "--history", f"sqlite:///{folder}/history.sqlite"]
