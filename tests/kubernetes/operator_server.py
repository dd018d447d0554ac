"""The operator of Windlass on a control plane, as a process with the permissions of an installation."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from windlass.backends.kubernetes.client.access import from_kubeconfig
from windlass.backends.kubernetes.client.connection import Connection
from windlass.controlplane.cluster import ControlPlane
from windlass.controlplane.processes import Server
from windlass.deploy.install.installer import apply
from windlass.deploy.installation import installation_objects
from windlass.deploy.operator import Setup
from windlass.jobs.kubernetes.operator_names import NAMESPACE

_INSIDE = ("Deployment", "PodDisruptionBudget", "Service")
"""Kinds of an installation that stand for the process."""


@contextmanager
def operator_server(plane: ControlPlane, folder: Path, setup: Setup) -> Iterator[Path]:
    """Runs the operator of an installation until the end of the block, once it leads. Yields its log."""
    log = folder / "operator.log"
    server = Server("operator", asyncio.run(_command(plane, folder, setup)), log)
    server.start()
    try:
        while "leading" not in log.read_text():
            server.check_running()
            time.sleep(0.1)
        yield log
    finally:
        server.stop()


async def _command(plane: ControlPlane, folder: Path, setup: Setup) -> list[str | Path]:
    async with Connection(from_kubeconfig(str(plane.kubeconfig))) as connection:
        objects = [each for each in installation_objects(setup) if each["kind"] not in _INSIDE]
        async for _ in apply(connection, objects):
            pass
    account = await plane.service_account(NAMESPACE, "windlass-operator")
    run: list[str | Path] = [Path(sys.executable).with_name("windlass"), "operator", "run", "--kubeconfig", account]
    faces = ["--metrics-host", "127.0.0.1", "--metrics-port", "0", "--address", "http://127.0.0.1:0"]
    chosen = ["--diagnoses-at-once", str(setup.diagnoses_at_once)]
    return [*run, *faces, *chosen, "--history", f"sqlite:///{folder}/history.sqlite"]
