"""Runs verbs in this process against a fake daemon with scripted answers."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from windlass.cli.entry import main
from windlass.core.lifecycle.transitions import create_state
from windlass.core.model.job import Job, Role
from windlass.core.model.status import Failure, FailureClass, JobState, Phase, Placement
from windlass.server.client import Client
from windlass.server.errors import ApiError, ErrorCode
from windlass.server.job_lines import job_line

NOW = 1_700_000_000_000
PING: dict[str, Any] = {
    "version": "0",
    "pid": 7,
    "kind": "up",
    "state": "/state",
    "since": NOW - 90_000,
    "now": NOW,
    "cluster": "2 nodes with 4 CPU slots each",
    "nodes": 2,
    "capacity": {"cpu": 4_000, "gpu": 8},
    "waiting": 0,
    "holding": 0,
    "trouble": "",
}


class Ran(NamedTuple):
    code: int
    out: str
    err: str


class Daemon:
    """`says[path]`: the answer to a request, or the error to raise; `asked`: requests (method, path, filters, body)."""

    def __init__(self) -> None:
        self.says: dict[str, Any] = {"/v1/ping": dict(PING)}
        self.asked: list[tuple[str, str, dict[str, list[str]], Any]] = []

    def call(self, method: str, path: str, body: object = None) -> Any:
        plain, filters = unquote(urlsplit(path).path), parse_qs(urlsplit(path).query)
        if plain != "/v1/ping":
            self.asked.append((method, plain, filters, body))
        answer = self.says.get(plain, ApiError(ErrorCode.NO_SUCH_JOB, f"nobody has told what {plain} says"))
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Daemon:
    fake = Daemon()
    monkeypatch.setattr(Client, "call", lambda _self, *words: fake.call(*words))
    return fake


@pytest.fixture
def windlass(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., Ran]:
    """Runs a verb with an empty state folder, without a terminal and with a minimal environment."""
    for name in [name for name in os.environ if name.startswith(("WINDLASS", "_WINDLASS", "COLUMNS", "NO_COLOR"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("WINDLASS_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("TZ", "UTC")

    def run(*words: str) -> Ran:
        capsys.readouterr()
        try:
            code = main(list(words))
        except SystemExit as end:  # typer's, once it has told a shell what may come next
            code = int(end.code or 0)
        out, err = capsys.readouterr()
        return Ran(int(code), out, err)

    return run


def state(number: int = 1, name: str = "digits", gpu: int = 1, replicas: int = 2, **status: Any) -> JobState:
    role = Role(replicas=replicas, procs=2, resources={"gpu": gpu, "memory": 3 << 30}, command=("python", "träin.py"))
    new = create_state(f"{name}-{number}", number, Job(name, (role,), user="zoë", queue="research", workdir="/w"), NOW)
    return replace(new, status=replace(new.status, **status))


def queued(number: int = 1, **more: Any) -> JobState:
    return state(number, phase=Phase.QUEUED, queued_at=NOW, reason="Queued", **more)


def running(number: int = 1, **more: Any) -> JobState:
    placement = Placement({"worker": ("n1", "n2")})
    times = {"queued_at": NOW, "admitted_at": NOW, "started_at": NOW, "running_since": NOW}
    return state(number, phase=Phase.RUNNING, reason="Running", generation=1, placement=placement, **times, **more)


def failed(number: int = 1, code: int | None = 3, reason: str = "ExitCode", **more: Any) -> JobState:
    message = f"rank 0 (worker/0) on n1 exited with code {code}"
    failure = Failure(FailureClass.USER, reason, message, NOW, 0, code)
    ended = {"reason": reason, "message": message, "last_failure": failure, "finished_at": NOW + 65_000}
    times = {"started_at": NOW + 1_000, "run_time": 64_000}
    return state(number, phase=Phase.FAILED, generation=1, **(times | ended | more))


def succeeded(number: int = 1, **more: Any) -> JobState:
    times = {"started_at": NOW + 40, "finished_at": NOW + 3_600_040, "run_time": 3_600_000}
    return state(number, phase=Phase.SUCCEEDED, reason="Succeeded", generation=1, **(times | more))


def line(state: JobState, **more: Any) -> dict[str, Any]:
    """Returns the job as a line of the API."""
    return {**job_line(state), **more}


@pytest.fixture
def lines() -> Callable[..., list[dict[str, Any]]]:
    """`lines(running=…)`: one line for each kind of state, by number."""

    def make(*kinds: str, **more: Any) -> list[dict[str, Any]]:
        makers = {"queued": queued, "running": running, "failed": failed, "succeeded": succeeded}
        return [line(makers[kind](number), **more) for number, kind in enumerate(kinds, start=1)]

    return make


@pytest.fixture
def made() -> SimpleNamespace:
    """States of every kind, and their lines."""
    return SimpleNamespace(queued=queued, running=running, failed=failed, succeeded=succeeded, line=line)
