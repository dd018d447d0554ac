"""A fake cluster for the operator's endpoints: gangs and pods that a test defines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from windlass.backends.kubernetes.client import objects
from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.objects import Pod
from windlass.core.model.job import Job, Role
from windlass.core.model.status import JobState, Phase, Placement, Status
from windlass.jobs.kubernetes.pods.pod_assembly import GENERATION

NOON = 1_700_000_000_000


class Cluster:
    """The part of `KubernetesBackend` from which members and logs are read. `logs`: by pod; an exception is raised."""

    def __init__(self) -> None:
        self.gangs: dict[str, Any] = {}
        self.external_gang: Any = None
        self.found: list[Pod] = []
        self.launched: list[Pod] = []
        self.logs: dict[str, bytes | Exception] = {}
        self.troubles: list[Exception] = []
        """Errors that the first requests for logs raise."""
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.jobs = SimpleNamespace(get=self.gangs.get)
        self.external = SimpleNamespace(get=lambda _: self.external_gang)
        self.pods = SimpleNamespace(owned=lambda _: self.found, get=self._pod)
        self.launchers = SimpleNamespace(pods=lambda _: self.launched)
        self.connection = SimpleNamespace(stream=self._stream)

    def add(self, state: JobState) -> JobState:
        self.gangs[state.id] = SimpleNamespace(reference=SimpleNamespace(uid="u1", owner_key=("team", "u1")))
        return state

    def _pod(self, _namespace: str, name: str) -> Pod | None:
        return next((pod for pod in self.found if pod.metadata.name == name), None)

    @asynccontextmanager
    async def _stream(self, path: str, params: dict[str, str], _silence: float) -> AsyncIterator[AsyncIterator[bytes]]:
        self.asked.append((path, params))
        if self.troubles:
            raise self.troubles.pop(0)
        log = self.logs.get(path.split("/")[-2], ApiError(404, "NotFound", "pods not found"))
        if isinstance(log, Exception):
            raise log

        async def pieces() -> AsyncIterator[bytes]:
            for start in range(0, len(log), 1 << 16):
                yield log[start : start + (1 << 16)]

        yield pieces()


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def state() -> Callable[..., JobState]:
    """A running job with a master and two workers."""

    def make(**how: Any) -> JobState:
        job = Job("digits", (Role("master"), Role("worker", 2)), user="ada")
        placement = Placement({"master": ("n1",), "worker": ("n1", "n2")})
        status = Status(Phase.RUNNING, created_at=NOON, generation=1, placement=placement, is_gone=False)
        return JobState("team/digits", 1, job, replace(status, **how))

    return make


@pytest.fixture
def pod() -> Callable[..., Pod]:
    def make(
        role: str, index: int, *, node: str = "n1", code: int | None = None, labels: dict[str, str] | None = None
    ) -> Pod:
        usual = {"training.kubeflow.org/replica-type": role, "training.kubeflow.org/replica-index": str(index)}
        usual[GENERATION] = "1"
        ended = {"state": {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed"}}}
        status = {"phase": "Running"} if code is None else {"phase": "Failed" if code else "Succeeded"}
        written = {
            "metadata": {
                "name": f"digits-{role}-{index}",
                "namespace": "team",
                "uid": f"{role}{index}",
                "resourceVersion": "1",
                "labels": usual if labels is None else labels,
            },
            "spec": {"nodeName": node, "containers": [{"name": "sidecar"}, {"name": "pytorch"}]},
            "status": {**status, "containerStatuses": [{"name": "pytorch", **(ended if code is not None else {})}]},
        }
        return objects.pod(msgspec.json.encode(written))

    return make
