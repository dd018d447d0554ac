from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from windlass.backends.kubernetes.client.resources import named
from windlass.cli.kubernetes import pod_logs
from windlass.cli.kubernetes.job_objects import JobObject
from windlass.cli.kubernetes.pod_logs import PodLogs

TRAINING = named("windlass.dev/v1alpha1", "trainingjobs", "TrainingJob")
JOB = JobObject(TRAINING, {"metadata": {"name": "digits", "namespace": "ml", "uid": "u"}})
POD = SimpleNamespace(
    uid="p", name="digits-0", namespace="ml", generation=1, rank=0, node="n1", code=0, has_started=True, container="c"
)


class Session:
    """A session whose pod sends these pieces of its log, and then its end or nothing more."""

    def __init__(self, *pieces: bytes, ends: bool) -> None:
        self._pieces, self._ends = pieces, ends
        self._runner = asyncio.Runner()
        self.connection = self

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(work)

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        return self._runner.get_loop().create_task(work)

    @asynccontextmanager
    async def stream(self, *_: object) -> AsyncIterator[AsyncIterator[bytes]]:
        yield self._sent()

    async def _sent(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece
        if not self._ends:
            await asyncio.Event().wait()


@pytest.fixture(autouse=True)
def one_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server lists one pod, and a wait for it is short."""

    async def reflect(*_: object, apply: Any, synced: Any, **__: object) -> None:
        apply([SimpleNamespace(object=POD)])
        synced()

    monkeypatch.setattr(pod_logs, "reflect", reflect)
    monkeypatch.setattr(pod_logs, "belongs_to_job", lambda *_: True)
    monkeypatch.setattr(pod_logs, "ranks_of_pods", lambda _job, pods: pods)
    monkeypatch.setattr(pod_logs, "_FINAL_TIMEOUT_S", 0.01)


def test_a_log_that_ends_is_read_whole() -> None:
    logs = PodLogs(Session(b"2026-01-01T00:00:00Z epo", b"ch 1\n", ends=True), JOB)  # type: ignore[arg-type]
    assert [line.text for line in logs.finish()] == ["epoch 1"]
    assert logs.unread == ""


def test_a_log_whose_rest_does_not_come_is_said_to_be_unread() -> None:
    logs = PodLogs(Session(b"2026-01-01T00:00:00Z epoch 1\n", ends=False), JOB)  # type: ignore[arg-type]
    assert [line.text for line in logs.finish()] == ["epoch 1"]
    assert logs.unread == "no new line within 0.01 s"
