"""The scheduler of scheduler-plugins beside a control plane, with the plugin Coscheduling."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import yaml

from windlass.controlplane.build import place_of
from windlass.controlplane.cluster import ControlPlane
from windlass.controlplane.processes import Server, free_port
from windlass.controlplane.programs import PROGRAMS

NAME = "scheduler-plugins-scheduler"


@contextmanager
def coscheduler(plane: ControlPlane) -> Iterator[Server]:
    """Runs the scheduler under the name that its chart gives it."""
    plugins = {
        "multiPoint": {"enabled": [{"name": "Coscheduling"}]},
        "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]},
    }
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(plane.kubeconfig)},
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": NAME, "plugins": plugins}],
    }
    file = plane.folder / "coscheduler.yaml"
    file.write_text(yaml.safe_dump(config))
    flags = [f"--config={file}", "--bind-address=127.0.0.1", f"--secure-port={free_port()}"]
    command = [place_of(PROGRAMS["coscheduler"]), *flags, f"--cert-dir={plane.folder}"]
    server = Server(NAME, command, plane.folder / "coscheduler.log")
    server.start()
    try:
        yield server
    finally:
        server.kill()
