"""The backends that the contract is checked for, as entries of HOSTS."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from backend_host import BackendHost, Behaviour
from kubernetes_host import KubernetesHost

import strays
from windlass.backends.local.backend import LocalBackend
from windlass.backends.local.nodes import Machine, declare_cluster
from windlass.backends.port import Backend, ClusterChanged
from windlass.backends.simulator import cluster_of
from windlass.backends.simulator.backend import SimulatorBackend
from windlass.backends.simulator.script import Script
from windlass.backends.simulator.universe import Universe
from windlass.core.lifecycle.events import Exit
from windlass.core.model.job import Job, Role


class LocalHost:
    """A state folder, under any number of controllers."""

    nodes = ("n1", "n2")

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        self.opened: list[LocalBackend] = []

    async def open(self) -> LocalBackend:
        cluster = declare_cluster(Machine(cpu=4000, memory=2**32), 2, 2)
        backend = LocalBackend(self.state, cluster, kind="run")
        self.opened.append(backend)
        return backend

    async def abandon(self, backend: Backend) -> None:
        assert isinstance(backend, LocalBackend)
        self.opened.remove(backend)
        backend.close()  # what was not committed or sent is lost, as by SIGKILL

    def job(self, behaviour: Behaviour, replicas: int = 1) -> Job:
        commands = {
            Behaviour.SUCCEED: ("true",),
            Behaviour.FAIL: ("sh", "-c", "exit 3"),
            Behaviour.RUN: ("sleep", "1000"),
            Behaviour.STUBBORN: ("sh", "-c", "trap '' TERM; while :; do sleep 1000; done"),
            Behaviour.UNSTARTABLE: ("/no/such/program",),
        }
        return Job("job", (Role(replicas=replicas, resources={"gpu": 1}, command=commands[behaviour]),), workdir="/")

    async def register(self, _backend: Backend, job: Job, number: int) -> tuple[str, Job]:
        return f"job-{number}", job

    async def end_scenario(self) -> None:
        """Does nothing: processes do not depend on an event loop."""

    def close(self) -> None:
        for backend in self.opened:
            backend.close(end=True)
        strays.assert_none_left([self.state])


class SimulatorHost:
    """A simulated cluster, under any number of controllers."""

    nodes = ("n1", "n2")

    def __init__(self, _folder: Path) -> None:
        cluster = cluster_of(2, 2)
        self.universe = Universe(
            ClusterChanged(cluster.nodes, cluster.queues), lambda _, job: self.scripts[job.labels["does"]]
        )

    scripts: Mapping[str, Script] = {
        Behaviour.SUCCEED: Script(work=0),
        Behaviour.FAIL: Script(work=0, exit=Exit(code=3)),
        Behaviour.RUN: Script(work=None),
        Behaviour.STUBBORN: Script(work=None, obeys_stop=False),
        Behaviour.UNSTARTABLE: Script(work=None, start_error="/no/such/program cannot be started"),
    }

    async def open(self) -> SimulatorBackend:
        return SimulatorBackend(self.universe)

    async def abandon(self, backend: Backend) -> None:
        """Does nothing: only the committed state is in the universe."""

    def job(self, behaviour: Behaviour, replicas: int = 1) -> Job:
        return Job("job", (Role(replicas=replicas, resources={"gpu": 1}),), labels={"does": behaviour})

    async def register(self, _backend: Backend, job: Job, number: int) -> tuple[str, Job]:
        return f"job-{number}", job

    async def end_scenario(self) -> None:
        """Does nothing: the simulator runs no tasks."""

    def close(self) -> None:
        assert self.universe.gangs.contract_violations == []


HOSTS: dict[str, Callable[[Path], BackendHost]] = {"local": LocalHost, "simulator": SimulatorHost}


@pytest.fixture(params=[*sorted(HOSTS), pytest.param("kubernetes", marks=pytest.mark.apiserver)])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BackendHost]:
    if request.param == "kubernetes":
        built: BackendHost = KubernetesHost(request.getfixturevalue("apiserver"))
    else:
        built = HOSTS[request.param](tmp_path)
    yield built
    built.close()
