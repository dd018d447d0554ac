"""A service without processes: a real controller and store, and a world in which nothing happens by itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from windlass.controller import Controller
from windlass.core.commands import Command
from windlass.core.events import Exit as Ended
from windlass.core.events import GangGone, MemberExited, Started
from windlass.core.job import Job, Role
from windlass.jobs.submission import Submission
from windlass.server.app import application
from windlass.server.feed import Feed
from windlass.server.service import Service
from windlass.worlds.local.nodes import Machine, declared
from windlass.worlds.local.paths import prepare
from windlass.worlds.local.store import Notes, Origin, open_store
from windlass.worlds.port import JobEvent, Recovery, WorldEvent

NOW = 1_700_000_000_000


class StillWorld:
    """What the service asks of a local world. Every event is a turn of its own, at once."""

    def __init__(self, state: Path, feed: Feed) -> None:
        self.paths = prepare(state)
        self.store = open_store(self.paths)
        self.cluster = declared(Machine(cpu=8000, memory=2**34), 2, 4)
        self.feed = feed
        self.controller = Controller(Recovery(self.cluster.changed()), self.finished)
        self.controller.take_over(self.now())
        self.performed: list[Command] = []
        self.full = False
        self.last = 0

    def now(self) -> int:
        return NOW

    def finished(self, job_id: str) -> Any:
        return self.store.job(job_id)

    def reserve(self, count: int = 1) -> int:
        first, self.last = self.last + 1, self.last + count
        return first

    def inject(self, event: WorldEvent, origin: Origin | None = None) -> asyncio.Future[None]:
        promise = asyncio.get_running_loop().create_future()
        if self.full:
            self.feed.complain("the disk is full; nothing was changed, free some space")
            return promise
        self.happen(event, origin)
        promise.set_result(None)
        return promise

    def happen(self, event: WorldEvent, origin: Origin | None = None) -> None:
        changes = self.controller.turn([event], self.now())
        origins = {} if origin is None else {state.id: origin for state in changes.states}
        self.store.commit(changes, Notes(origins=origins))
        self.feed.announce()

    def perform(self, commands: Sequence[Command]) -> None:
        self.performed += commands

    def living(self) -> bool:
        return bool(self.controller.states)

    def run_to_end(self, job_id: str, code: int = 0) -> None:
        """Its gang starts and ends."""
        generation = self.controller.states[job_id].status.generation
        members = self.controller.states[job_id].job.members
        self.happen(JobEvent(job_id, Started(generation)))
        for member in range(members):
            self.happen(JobEvent(job_id, MemberExited(generation, member, Ended(code=code))))
        self.happen(JobEvent(job_id, GangGone(generation)))


class Still:
    """The API of a still world. `ask` is one request, straight into the application."""

    def __init__(self, state: Path, kind: str = "up") -> None:
        self.feed = Feed()
        self.world = StillWorld(state, self.feed)
        self.left: list[bool] = []
        self.service = Service(self.world.controller, self.world, self.feed, kind, self.left.append)  # type: ignore[arg-type]
        self.app = application(self.service)

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        """(status, JSON)."""
        status, raw = self.ask_raw(method, path, b"" if body is None else json.dumps(body).encode(), **headers)
        return status, json.loads(raw)

    def ask_raw(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
        return asyncio.run(_ask(self.app, method, path, body, headers))

    def submit(self, *jobs: Job | Submission, **facts: Any) -> list[str]:
        status, answer = self.ask("POST", "/v1/jobs", handed(*jobs, **facts))
        assert status == 201, answer
        return answer["ids"]


async def _ask(app: Any, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
    path, _, query = path.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.replace("_", "-").lower().encode(), value.encode()) for name, value in headers.items()],
    }
    said: list[dict[str, Any]] = []
    given = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> dict[str, Any]:
        for part in given:
            return part
        await asyncio.Event().wait()
        raise AssertionError

    async def send(part: dict[str, Any]) -> None:
        said.append(part)

    await app(scope, receive, send)
    return said[0]["status"], b"".join(part.get("body", b"") for part in said[1:])


def job(name: str = "job", replicas: int = 1, gpus: int = 1, **fields: Any) -> Job:
    return Job(name, (Role(replicas=replicas, resources={"gpu": gpus}, command=("true",)),), **fields)


def handed(*jobs: Job | Submission, **facts: Any) -> dict[str, Any]:
    """A submission's body."""
    submissions = [each if isinstance(each, Submission) else Submission(each) for each in jobs]
    return {"submissions": msgspec.to_builtins(submissions), **facts}
