"""The operator for these tests: as the installed deployment, or as a process outside the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from operator_server import operator_server

from e2e.user import IMAGE, User
from windlass.controlplane.images import OPERATOR
from windlass.controlplane.real_nodes import RealCluster
from windlass.deploy.operator import Setup
from windlass.jobs.kubernetes.operator_names import NAMESPACE

IMAGES = (IMAGE, "alpine:3.10")
"""The second is what a PyTorchJob's workers wait for their master with."""


@contextmanager
def deployed(real: RealCluster) -> Iterator[None]:
    """Runs the deployment on the nodes: with its service account and role, in a restricted namespace, with probes."""
    real.know_images(*IMAGES)
    admin = User(real.plane.kubeconfig, NAMESPACE)
    admin.windlass("operator", "install", "--image", OPERATOR, "--replicas", "1", "--trainer", "--wait", "240")
    try:
        yield
    finally:
        admin.windlass("operator", "uninstall", "--delete-jobs", "--yes")


@contextmanager
def beside(real: RealCluster, folder: Path) -> Iterator[Path]:
    """Runs the operator in a process that outlives every node, with the same permissions. Yields its log."""
    real.know_images(*IMAGES)
    with operator_server(real.plane, folder, Setup(OPERATOR)) as log:
        yield log
