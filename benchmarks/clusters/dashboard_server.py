"""A dashboard of a cluster without processes: real controller, service, database and web server on a fake backend.

    python dashboard_server.py FOLDER RUNNING WAITING

Gangs start as soon as the scheduler decides so. Prints the one-time link, and then for each line of its input one line:
`link` → another link; `end` → the id of the oldest running job, which ends, and the time (ms) at which it did.
"""

import asyncio
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from windlass.backends.inbox import Inbox, resolve
from windlass.backends.local.nodes import LocalCluster, Machine, declare_cluster
from windlass.backends.local.paths import prepare_folder
from windlass.backends.local.state_store import Notes, open_store
from windlass.backends.port import BackendEvent, Changes, JobArrived, JobEvent, Recovery
from windlass.controller.controller import Controller, run
from windlass.core.lifecycle.commands import Command, Launch
from windlass.core.lifecycle.events import Exit, GangGone, MemberExited, Started
from windlass.core.model.job import Job, Role
from windlass.core.model.reservation import Reservation
from windlass.core.model.status import TERMINAL, JobState
from windlass.server.dashboard.listener import DashboardListener
from windlass.server.feed import EventFeed
from windlass.server.garbage_collection import collect_rarely
from windlass.server.local_actions import LocalActions
from windlass.server.local_data_source import LocalDataSource
from windlass.server.service import Service

GPUS = 8
"""GPUs of a node, and running jobs on it."""


class FakeBackend:
    """The part of a local backend that a controller and the pages use: every gang starts at once."""

    def __init__(self, folder: Path, cluster: LocalCluster) -> None:
        self.paths, self.cluster = prepare_folder(folder), cluster
        self.store = open_store(self.paths)
        self.reservations: tuple[Reservation, ...] = ()
        self.launched: list[str] = []
        self._inbox = Inbox()
        self._promises: list[asyncio.Future[None]] = []

    def now(self) -> int:
        return int(time.time() * 1000)

    def recover(self) -> Recovery:
        return Recovery(self.cluster.changed(()), ())

    def finished(self, job_id: str) -> JobState | None:
        state = self.store.job(job_id)
        return state if state and state.status.phase in TERMINAL else None

    async def wait(self, until: int | None) -> Sequence[BackendEvent]:
        resolve(self._promises)
        await self._inbox.wait(None if until is None else max(0.0, (until - self.now()) / 1000))
        events, promises = self._inbox.take()
        self._promises += promises
        return events

    async def commit(self, changes: Changes) -> Mapping[str, str]:
        self.store.commit(changes, Notes())
        resolve(self._promises)
        return {}

    def perform(self, commands: Sequence[Command]) -> None:
        for command in commands:
            if isinstance(command, Launch):
                self.launched.append(command.job_id)
                self._inbox.put(JobEvent(command.job_id, Started(command.generation)))

    def inject(self, *events: BackendEvent) -> asyncio.Future[None]:
        promise = asyncio.get_running_loop().create_future()
        self._inbox.put(*events, promise=promise)
        return promise


async def main(folder: Path, running: int, waiting: int) -> None:
    cluster = declare_cluster(Machine(10**9, 2**50), running // GPUS, GPUS)
    backend, feed = FakeBackend(folder, cluster), EventFeed()
    controller = Controller(backend.recover(), backend.finished)
    service = Service(controller, LocalDataSource(backend), feed, "up")
    dashboard = DashboardListener(service, controller, feed, backend.paths)
    actions = LocalActions(service, controller, backend, feed, lambda _: None, dashboard)
    collect_rarely()
    controlling = asyncio.create_task(run(controller, backend, [feed], on_trouble=feed.complain))
    await backend.inject(*(JobArrived(f"job-{n}", n, job(n)) for n in range(1, running + waiting + 1)))
    while len(backend.launched) < running and not controlling.done():  # noqa: ASYNC110 - as good as an event here
        await asyncio.sleep(0.1)
    print(json.dumps({"link": await dashboard.open(actions, 0, may_act=False)}), flush=True)
    ended = 0
    while line := await asyncio.to_thread(sys.stdin.readline):
        if line.strip() == "link":
            print(json.dumps({"link": await dashboard.open(actions, 0, may_act=False)}), flush=True)
            continue
        job_id, ended = backend.launched[ended], ended + 1
        at = time.time() * 1000
        exit = Exit(code=0)
        await backend.inject(*(JobEvent(job_id, each) for each in (MemberExited(1, 0, exit), GangGone(1))))
        print(json.dumps({"ended": job_id, "at": at}), flush=True)
    feed.close()
    await dashboard.close()
    controlling.cancel()


def job(number: int) -> Job:
    return Job(f"job-{number}", (Role("worker", resources={"gpu": 1}, command=("python", "train.py")),))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
