"""A daemon without processes, sockets and clocks: real controller, service and database on a fake backend."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from windlass.backends.inbox import Inbox, resolve
from windlass.backends.local import reservation_notes
from windlass.backends.local.nodes import LocalCluster, Machine, declare_cluster
from windlass.backends.local.paths import prepare_folder
from windlass.backends.local.schedule_records import ScheduleRecord, record_text
from windlass.backends.local.state_store import Notes, SubmissionOrigin, open_store
from windlass.backends.port import BackendError, BackendEvent, Changes, JobArrived, JobEvent, Recovery
from windlass.controller.controller import Controller, run
from windlass.core.lifecycle.commands import Command
from windlass.core.lifecycle.events import Event, Exit, GangGone, MemberExited, Started
from windlass.core.model.job import Job, Role
from windlass.core.model.queue import Queue
from windlass.core.model.reservation import Reservation
from windlass.core.model.status import TERMINAL, JobState
from windlass.jobs.description.submission import Submission
from windlass.server.app import application
from windlass.server.dashboard.listener import DashboardListener
from windlass.server.feed import EventFeed
from windlass.server.local_actions import LocalActions
from windlass.server.local_data_source import LocalDataSource
from windlass.server.schedule_actions import ScheduleActions
from windlass.server.schedule_runner import ScheduleRunner
from windlass.server.service import Service

NOON = 1_700_000_000_000
QUEUES = (Queue("default"), Queue("research"), Queue("idle", {"gpu": 1}))


class FakeBackend:
    """The part of `LocalBackend` that a service and a controller use. The test sends the events of gangs."""

    def __init__(self, state: Path, cluster: LocalCluster) -> None:
        self.paths = prepare_folder(state)
        self.cluster = cluster
        self.store = open_store(self.paths)
        self.reservations = reservation_notes.read_reservations(self.store)
        self.clock = NOON
        self.full = ""
        """Error of every write, empty if the disk has space."""
        self.performed: list[Command] = []
        self._inbox = Inbox()
        self._promises: list[asyncio.Future[None]] = []
        self._origins: dict[str, SubmissionOrigin] = {}
        self._number = self.store.last_number() + 1

    def now(self) -> int:
        return self.clock

    def recover(self) -> Recovery:
        return Recovery(self.cluster.changed(self.reservations), tuple(self.store.recoverable()))

    def finished(self, job_id: str) -> JobState | None:
        state = self.store.job(job_id)
        return state if state and state.status.phase in TERMINAL else None

    async def wait(self, until: int | None) -> Sequence[BackendEvent]:
        if not self.full:
            resolve(self._promises)
        await self._inbox.wait(0 if until is not None and until <= self.clock else None)
        events, promises = self._inbox.take()
        self._promises += promises
        return events

    async def commit(self, changes: Changes) -> Mapping[str, str]:
        if self.full:
            raise BackendError(self.full)
        origins = {s.id: self._origins.pop(s.id) for s in changes.states if s.id in self._origins}
        self.store.commit(changes, Notes(origins=origins))
        resolve(self._promises)
        return {}

    def perform(self, commands: Sequence[Command]) -> None:
        self.performed += commands

    @property
    def next_number(self) -> int:
        return self._number

    def reserve(self, count: int = 1) -> int:
        self._number += count
        return self._number - count

    def inject(self, event: BackendEvent, origin: SubmissionOrigin | None = None) -> asyncio.Future[None]:
        promise = asyncio.get_running_loop().create_future()
        if isinstance(event, JobArrived) and origin is not None:
            self._origins[event.job_id] = origin
        self._inbox.put(event, promise=promise)
        return promise

    def set_reservations(self, reservations: tuple[Reservation, ...]) -> asyncio.Future[None]:
        self.store.note(reservation_notes.reservation_note(reservations))
        self.reservations = reservations
        return self.inject(self.cluster.changed(reservations))

    def set_schedules(self, records: Mapping[str, ScheduleRecord | None]) -> None:
        if self.full:
            raise BackendError(self.full)
        texts = {name: None if record is None else record_text(record) for name, record in records.items()}
        self.store.note(Notes(schedules=texts))

    def forget_ended(self, job_ids: Sequence[str]) -> None:
        self.store.commit(Changes(forgotten=tuple(job_ids)), Notes())

    def has_living_jobs(self) -> bool:
        return bool(self.store.alive())

    def mend(self) -> None:
        self.full = ""
        self._inbox.wake()


class UnforeseenError(Exception):
    """An unexpected error."""


class Answer(NamedTuple):
    status: int
    kind: str
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.raw)

    @property
    def error(self) -> tuple[int, str, str]:
        """(status, code, message)"""
        assert self.kind == "application/json"
        assert list(self.json) == ["error"]
        assert "\n" not in self.json["error"]["message"] + self.json["error"]["fix"]
        return self.status, self.json["error"]["code"], self.json["error"]["message"]


class Daemon:
    """Sends requests and events of gangs one after another. The loop runs only during them."""

    def __init__(self, state: Path, kind: str = "up", gpus: int = 4, sharing: str = "") -> None:
        self.runner = asyncio.Runner()
        cluster = declare_cluster(Machine(4000, 2**33), 2, gpus, QUEUES)
        cluster = replace(cluster, nodes=tuple(replace(node, sharing=sharing) for node in cluster.nodes))
        self.backend = FakeBackend(state, cluster)
        self.feed = EventFeed()
        self.left: list[bool] = []
        self.troubles: list[str] = []
        self.controller = Controller(self.backend.recover(), self.backend.finished)
        self.service = Service(self.controller, LocalDataSource(self.backend), self.feed, kind)
        self.dashboard = DashboardListener(self.service, self.controller, self.feed, self.backend.paths)
        self.schedules = ScheduleRunner(self.controller, self.backend, self.troubles.append)
        schedules = ScheduleActions(self.controller, self.backend, self.schedules)
        self.service.find_schedule = schedules.find
        self.actions = LocalActions(
            self.service,
            self.controller,
            self.backend,
            self.feed,
            self.left.append,
            self.dashboard,
            schedules,
        )
        self._application = application(self.service, self.actions)
        observers = [self.feed, self.schedules]
        self._controlling = self.start(run(self.controller, self.backend, observers, on_trouble=self.feed.complain))

    # --- requests ------------------------------------------------------------------------------------

    def get(self, path: str, **headers: str) -> Answer:
        return self.runner.run(self._ask("GET", path, b"", headers))

    def post(self, path: str, body: object = None) -> Answer:
        return self.runner.run(self._ask("POST", path, b"" if body is None else json.dumps(body).encode(), {}))

    def delete(self, path: str) -> Answer:
        return self.runner.run(self._ask("DELETE", path, b"", {}))

    def send(self, path: str, raw: bytes) -> Answer:
        """Send raw bytes."""
        return self.runner.run(self._ask("POST", path, raw, {}))

    def submit(self, *jobs: Job | Submission, **more: object) -> list[str]:
        answer = self.hand_in(*jobs, **more)
        assert answer.status == 201, answer.raw
        return answer.json["ids"]

    def hand_in(self, *jobs: Job | Submission, **more: object) -> Answer:
        given = [asdict(job if isinstance(job, Submission) else Submission(job)) for job in jobs]
        return self.post("/v1/jobs", {"submissions": given, **more})

    async def _ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        sent: list[dict[str, Any]] = []
        requests = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive() -> dict[str, Any]:
            return next(requests, None) or await asyncio.get_running_loop().create_future()

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        with contextlib.suppress(UnforeseenError):  # passed on by Starlette after its answer, for the server's log
            await self._application(scope(method, path, headers), receive, send)
        kind = dict(sent[0]["headers"])[b"content-type"].decode().partition(";")[0]
        return Answer(sent[0]["status"], kind, b"".join(message.get("body", b"") for message in sent[1:]))

    # --- events --------------------------------------------------------------------------------

    def happen(self, job_id: str, *events: Event) -> None:
        for event in events:
            self.runner.run(self._tell(JobEvent(job_id, event)))

    def end(self, job_id: str, exit: Exit) -> None:
        """Start the only member, end it with this exit, and end the gang."""
        self.happen(job_id, Started(1), MemberExited(1, 0, exit), GangGone(1))

    def shrink(self, to: int) -> None:
        """Reduce the number of GPUs of each node."""
        self.backend.cluster = replace(
            self.backend.cluster, nodes=declare_cluster(Machine(4000, 2**33), 2, to, QUEUES).nodes
        )
        self.runner.run(self._tell(self.backend.cluster.changed(self.backend.reservations)))

    async def _tell(self, event: BackendEvent) -> None:
        await self.backend.inject(event)

    def start(self, work: Awaitable[Any]) -> asyncio.Task[Any]:
        """Start a task beside the requests."""

        async def begin() -> asyncio.Task[Any]:
            task = asyncio.ensure_future(work)
            await _settle()
            return task

        return self.runner.run(begin())

    def settle(self) -> None:
        """Run the loop until all tasks wait."""
        self.runner.run(_settle())

    def phase(self, name: str) -> str:
        return self.get(f"/v1/jobs/{name}").json["phase"]

    def close(self) -> None:
        assert not self._controlling.done(), "the controller fell over"
        self.runner.close()
        self.backend.store.close()


async def _settle() -> None:
    for _ in range(30):
        await asyncio.sleep(0)


def scope(method: str, path: str, headers: dict[str, str]) -> dict[str, Any]:
    """ASGI scope of a request."""
    plain, _, query = path.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.0",
        "method": method,
        "scheme": "http",
        "path": plain,
        "raw_path": plain.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.replace("_", "-").lower().encode(), value.encode()) for name, value in headers.items()],
        "client": None,
        "server": None,
    }


@pytest.fixture
def open_daemon(tmp_path: Path) -> Iterator[Callable[..., Daemon]]:
    opened: list[Daemon] = []

    def daemon(**how: Any) -> Daemon:
        opened.append(Daemon(tmp_path / "state", **how))
        return opened[-1]

    yield daemon
    for each in opened:
        each.close()


@pytest.fixture
def daemon(open_daemon: Callable[..., Daemon]) -> Daemon:
    """Two nodes of four slots each."""
    return open_daemon()


@pytest.fixture
def job() -> Callable[..., Job]:
    def make(name: str = "digits", gpu: int = 1, replicas: int = 1, **fields: Any) -> Job:
        role = Role(replicas=replicas, resources={"gpu": gpu}, command=("python", "train.py"))
        return Job(name, (role,), user=fields.pop("user", "ada"), **fields)

    return make


@pytest.fixture
def broken() -> Callable[[], None]:
    def fail() -> None:
        raise UnforeseenError("the roof is leaking")

    return fail
