"""A cluster of a user: our operator leads, pods run until a test ends them, and their logs can be read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubeflow_operators.kinds import KINDS
from node_logs import logs_of_nodes
from operator_place import OperatorPlace, leading
from planes.background import Background

import strays
from windlass.controlplane.cluster import ControlPlane
from windlass.controlplane.fake_pod import End, Script, annotated
from windlass.controlplane.fake_status import Pod
from windlass.deploy.trainer_objects import labelled_runtimes

GROUP = "/apis/trainer.kubeflow.org/v1alpha1"
RUNTIMES = f"{GROUP}/clustertrainingruntimes"
PATHS = (*(kind.path for kind in KINDS), f"{GROUP}/trainjobs", RUNTIMES)
PRINTS = "print_packages"
"""Name of the function that a TrainerClient runs in `get_runtime_packages`; its pod ends by itself."""
POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class UserCluster:
    """Calls from a test's own thread, while the operator runs in another."""

    plane: ControlPlane
    there: Background
    place: OperatorPlace

    def end(self, pod: str, code: int = 0) -> None:
        """Ends the containers of a running pod."""
        self.there.do(self.place.kubelets.end("default", pod, End(code)))

    @contextmanager
    def unstartable(self) -> Iterator[None]:
        """Pods that are bound in the block stay Pending."""
        self.place.kubelets.start = 3600.0
        try:
            yield
        finally:
            self.place.kubelets.start = 0.0

    def get(self, path: str) -> Any:
        return self.there.do(self.place.api.get(path))

    def post(self, path: str, body: Mapping[str, Any]) -> None:
        self.there.do(self.place.api.post(path, body))

    def patch(self, path: str, body: Mapping[str, Any]) -> None:
        self.there.do(self.place.api.patch(path, body))


def until(holds: Callable[[], object]) -> None:
    """Waits until a condition holds."""
    end = time.monotonic() + strays.TIMEOUT_S
    while not holds():
        assert time.monotonic() < end, "the condition does not hold"
        time.sleep(POLL_S)


def script_of(pod: Pod) -> Script:
    return Script(work=0.0) if PRINTS in str(pod["spec"]["containers"][0]) else annotated(pod)


def log_of(pod: str) -> str:
    return "".join(f"{pod} line {number}\n" for number in range(3))


@contextmanager
def user_cluster(plane: ControlPlane, folder: Path) -> Iterator[UserCluster]:
    """The cluster, with the trainer's standard runtimes."""
    with Background() as there:
        place = there.enter(leading(plane, folder, gpus=8, script_of=script_of, paths=PATHS))
        there.enter(logs_of_nodes(plane, place.api, log_of))
        there.do(_create_runtimes(place))
        yield UserCluster(plane, there, place)


async def _create_runtimes(place: OperatorPlace) -> None:
    await asyncio.gather(*(place.api.post(RUNTIMES, each) for each in labelled_runtimes()))
