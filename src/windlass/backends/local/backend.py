"""The local world: `worlds.port.World` with processes on this machine.

One turn's way: the supervisor's reports and the faces' requests become events (`wait`); what the controller makes of
them
is written with what the world itself noted (`commit`), and only then acknowledged to the supervisor; then commands
go out
(`perform`). A report that was heard but not committed comes again from the supervisor, a command that was committed but
not carried out comes again from the controller.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from windlass.backends import inbox
from windlass.backends.local import devices, folder_lock, reservation_notes
from windlass.backends.local.client_watch import ClientWatch
from windlass.backends.local.clock import SYSTEM, Clock, Kept, Sources, offset
from windlass.backends.local.launch_message import choose_port, is_free, spawn_message
from windlass.backends.local.launched_gangs import Gang, Key, Told, new_gang, remembered_gang, tasks_of
from windlass.backends.local.nodes import LocalCluster
from windlass.backends.local.paths import StatePaths, prepare, state_id
from windlass.backends.local.state_store import Notes, StateStore, SubmissionOrigin, open_store
from windlass.backends.local.supervisor_client import Acknowledgements, SupervisorClient
from windlass.backends.local.supervisor_connection import Report
from windlass.backends.local.supervisor_start import Link, start_supervisor
from windlass.backends.port import BackendError, Changes, JobArrived, JobEvent, Recovery, WorldEvent
from windlass.core.lifecycle.commands import Command, Forget, Launch, Stop
from windlass.core.lifecycle.events import Cancel
from windlass.core.model.job import Job
from windlass.core.model.reasons import Verdict
from windlass.core.model.reservation import Reservation
from windlass.core.model.snapshot import PastUsage
from windlass.core.model.status import TERMINAL, JobState, Phase, Status

_PAST = "past use"
_TOLD = "told by agents"
_EARLIER = 0
"""The line of gangs that an earlier controller launched; lines of this one count from 1."""
_RUN_LINGER = 2.0
"""Seconds that jobs of a `windlass run` outlive a controller that was killed."""


@dataclass(slots=True)
class _Attempt:
    """A commit being tried: the same until it succeeds, whatever comes in meanwhile."""

    changes: Changes
    notes: Notes
    gangs: list[Gang]
    heard: Acknowledgements
    promises: list[asyncio.Future[None]]


@dataclass(slots=True)
class _Since:
    """What has come since the last commit began."""

    notes: Notes = field(default_factory=Notes)
    promises: list[asyncio.Future[None]] = field(default_factory=list)


class LocalBackend:
    """Processes on this machine, controlled from one state folder.

    `held`: its lock, taken here if not given. `link`: a supervisor started beforehand. `environment`: what ranks
    inherit
    when the submission did not bring its client's. `on_trouble` hears what people should know and no job's fate tells.
    Raises HeldError, CorruptError, WorldError.
    """

    def __init__(
        self,
        state: Path,
        cluster: LocalCluster,
        *,
        kind: folder_lock.Kind,
        held: folder_lock.Lock | None = None,
        link: Link | None = None,
        environment: Mapping[str, str] | None = None,
        on_trouble: Callable[[str], None] = lambda _text: None,
        sources: Sources = SYSTEM,
    ) -> None:
        self.paths: StatePaths = prepare(state)
        self.cluster = cluster
        self._lock = held or folder_lock.acquire(self.paths, kind)
        try:
            self.store: StateStore = open_store(self.paths)
            self._clock = _keep_clock(self.store, sources)
            self._state_id = state_id(self.paths)
            link = link or start_supervisor(self.paths)
        except BackendError:
            if held is None:
                self._lock.release()
            raise
        self.reservations = reservation_notes.read(self.store)
        """Those that people made here; the cluster has those of its file."""
        self._environment = dict(os.environ if environment is None else environment)
        self._on_trouble = on_trouble
        self._nodes = {node.name: node for node in cluster.nodes}
        self._jobs: dict[str, Job] = {}
        self._book: dict[Key, Gang] = {}
        self._inbox = inbox.Inbox()
        self._owners = ClientWatch(self._owner_gone)
        self._origins: dict[str, SubmissionOrigin] = {}
        self._since = _Since()
        self._agents_spoke = False
        """Since the last commit."""
        self._attempt: _Attempt | None = None
        self._next_number = int(self.store.meta("next_number") or 1)
        hello = {"linger": None if kind == "up" else _RUN_LINGER, "offset": self._clock.offset}
        self._keeper = SupervisorClient(
            self.paths,
            link,
            hello,
            hear=self._hear,
            greeted=self._greeted,
            on_trouble=on_trouble,
        )

    # --- the port ------------------------------------------------------------------------------------

    def now(self) -> int:
        """Milliseconds since the Unix epoch; never goes back."""
        return self._clock.now()

    def recover(self) -> Recovery:
        """Every job on record that still matters, and the gangs that should be alive."""
        states, told = self.store.recoverable(), self._told_before()
        supervisor, _, number = (self.store.meta("heard") or "").rpartition(" ")
        self._keeper.remember(Acknowledgements(supervisor, int(number or 0)))
        for state in states:
            if state.status.phase not in TERMINAL:
                self._jobs[state.id] = state.job
                self._remember_gang(state, told)
        for job_id, owner in self.store.owners().items():
            self._owners.add(job_id, owner)
        self._remove_logs(self.store.unremoved())
        past = self.store.meta(_PAST)
        kept = msgspec.json.decode(past, type=dict[str, PastUsage]) if past else {}
        return Recovery(self.cluster.changed(self.reservations), tuple(states), kept)

    def finished(self, job_id: str) -> JobState | None:
        """A job that has ended, by id."""
        state = self.store.job(job_id)
        return state if state is not None and state.status.phase in TERMINAL else None

    async def wait(self, until: int | None) -> Sequence[WorldEvent]:
        """Events of the supervisor and of the faces, or nothing at `until`."""
        self._keeper.attach()
        self._owners.watch()
        if self._attempt is None:  # the last turn is over, and changed nothing that had to be committed
            inbox.keep(self._since.promises)
            self._since.promises.clear()
        await self._inbox.wait(None if until is None else (until - self.now()) / 1000)
        events, promises = self._inbox.take()
        self._since.promises += promises
        return events

    async def commit(self, changes: Changes) -> None:
        """Write the turn down, with everything noted since the last one. Raises WorldError."""
        attempt = self._attempt or self._begin(changes)
        if attempt.changes is not changes:  # else what was heard for the one would be acknowledged with the other
            raise BackendError("the turn before this one could not be written yet")
        self._attempt = attempt
        self.store.commit(changes, attempt.notes)
        self._attempt = None
        # from here on it has happened
        self._book.update((gang.key, gang) for gang in attempt.gangs)
        self._let_go(changes)
        self._keeper.acknowledge(attempt.heard)
        inbox.keep(attempt.promises)

    def perform(self, commands: Sequence[Command]) -> None:
        """Tell the supervisor, or remove logs."""
        for command in commands:
            match command:
                case Launch(job_id, generation):
                    self._launch((job_id, generation))
                case Stop(job_id, generation, grace):
                    self._stop((job_id, generation), grace)
                case Forget(job_id):
                    self._remove_logs([job_id])

    # --- what the faces call -------------------------------------------------------------------------

    def reserve(self, count: int = 1) -> int:
        """The first of `count` numbers for jobs about to be injected."""
        first = self._next_number
        self._next_number += count
        return first

    def inject(self, event: WorldEvent, origin: SubmissionOrigin | None = None) -> asyncio.Future[None]:
        """Have the controller hear this. The future is done when whatever came of it is durable.

        `origin` comes with a `JobArrived`: the client's environment, and the owner it must not outlive.
        """
        promise = asyncio.get_running_loop().create_future()
        if isinstance(event, JobArrived) and origin is not None:
            self._origins[event.job_id] = origin
            if origin.owner:
                self._owners.add(event.job_id, origin.owner)
        self._inbox.put(event, promise)
        return promise

    def wake(self) -> None:
        """Have `wait` return."""
        self._inbox.wake()

    def set_cluster(self, cluster: LocalCluster) -> asyncio.Future[None]:
        """The nodes or queues are now these."""
        self.cluster = cluster
        self._nodes = {node.name: node for node in cluster.nodes}
        return self.inject(cluster.changed(self.reservations))

    def set_reservations(self, reservations: tuple[Reservation, ...]) -> asyncio.Future[None]:
        """What people have reserved is now this; it is on disk when this returns. Raises WorldError."""
        self.store.note(reservation_notes.notes(reservations))
        self.reservations = reservations
        return self.inject(self.cluster.changed(reservations))

    def note_verdicts(self, verdicts: Mapping[str, Verdict]) -> None:
        """Have the next commit write down why these wait, for `why` when no controller runs."""
        now = self.now()
        self._since.notes.verdicts.update((job_id, (now, verdict)) for job_id, verdict in verdicts.items())

    def living(self) -> bool:
        """Whether any job has not ended."""
        return bool(self._jobs)

    def close(self, *, end: bool = False) -> None:
        """Let the folder go. `end`: and end the supervisor with every process it keeps; else they go on."""
        self._owners.close()
        self._keeper.close(end=end)
        self.store.close()
        self._lock.release()

    # --- commit --------------------------------------------------------------------------------------

    def _begin(self, changes: Changes) -> _Attempt:
        since, self._since = self._since, _Since()
        for state in changes.states:
            if state.status.phase not in TERMINAL:
                self._jobs[state.id] = state.job
        statuses = {state.id: state.status for state in changes.states}
        gangs = self._prepare((command for command in changes.commands if isinstance(command, Launch)), statuses)
        notes = since.notes
        notes.origins = {s.id: self._origins.pop(s.id) for s in changes.states if s.id in self._origins}
        notes.tasks += [task for gang in gangs for task in tasks_of(gang)]
        if changes.states:
            notes.meta["next_number"] = str(self._next_number)
        heard = self._keeper.heard
        if self._agents_spoke:  # what is acknowledged is not told again
            told = {_name(gang.key): gang.told for gang in self._book.values() if not gang.gone and gang.told != Told()}
            notes.meta[_TOLD] = msgspec.json.encode(told).decode()
            self._agents_spoke = False
        if changes.past:
            notes.meta[_PAST] = msgspec.json.encode(changes.past).decode()
        if heard.number:
            notes.meta["heard"] = f"{heard.supervisor} {heard.number}"
        return _Attempt(changes, notes, gangs, heard, since.promises)

    def _prepare(self, launches: Iterable[Launch], statuses: Mapping[str, Status]) -> list[Gang]:
        """Give every new gang its devices."""
        gangs: list[Gang] = []
        for launch in launches:
            key = (launch.job_id, launch.generation)
            if key in self._book:  # told again after a restart
                continue
            gang = new_gang(key, self._jobs[launch.job_id], launch.placement)
            gang.before = statuses.get(launch.job_id, gang.before)
            self._equip(gang, launch, [*self._book.values(), *gangs])
            gangs.append(gang)
        return gangs

    def _equip(self, gang: Gang, launch: Launch, living: Sequence[Gang]) -> None:
        taken = [device for other in living for device in other.taken()]
        try:
            gang.devices = devices.assign(self._jobs[launch.job_id], launch.placement, self.cluster, taken)
        except devices.NoDeviceError as error:
            gang.cannot = str(error)

    def _let_go(self, changes: Changes) -> None:
        for state in changes.states:
            if state.status.phase in TERMINAL:
                self._jobs.pop(state.id, None)
                self._owners.remove(state.id)
        for key in [key for key, gang in self._book.items() if gang.gone]:
            del self._book[key]

    # --- perform -------------------------------------------------------------------------------------

    def _launch(self, key: Key) -> None:
        gang = self._book.get(key)
        if gang is None or gang.gone:
            return
        gang.line = self._keeper.line.number
        try:
            name = f"{self._state_id}.{key[0]}"  # another daemon on this machine may have a job of the same id
            gang.port = choose_port((name, key[1]), {other.port for other in self._book.values()}, is_free)
        except OSError as error:
            gang.cannot = str(error)
        if gang.cannot:
            self._tell(*gang.give_up())
            return
        inherited = self.store.environment(key[0])
        message = spawn_message(
            gang,
            nodes=self._nodes,
            logs=self.paths.generation_logs(*key),
            inherited=self._environment if inherited is None else inherited,
            state_id=self._state_id,
            owner=self.store.owner(key[0]),
        )
        self._keeper.send(message)

    def _stop(self, key: Key, grace: int) -> None:
        gang = self._book.setdefault(key, Gang(key))
        if gang.line < 0:
            gang.line = self._keeper.line.number
        self._keeper.send({"do": "stop", "job": key[0], "generation": key[1], "grace": grace})

    def _remove_logs(self, job_ids: Iterable[str]) -> None:
        for job_id in job_ids:
            import shutil  # noqa: PLC0415 - few runs forget a job

            shutil.rmtree(self.paths.job_logs(job_id), ignore_errors=True)
            self._since.notes.removed.append(job_id)

    # --- reports -------------------------------------------------------------------------------------

    def _hear(self, report: Report) -> None:
        key = (report["job"], report["generation"])
        gang = self._book.get(key)
        if gang is None:
            return
        match report["tell"]:
            case "started":
                rows = enumerate(report["pids"])
                self._since.notes.started += [(pid, ticks, *key, rank) for rank, (pid, ticks) in rows if pid]
                self._tell(*gang.start())
            case "exit":
                self._come_back(gang)
                events, detail = gang.end_rank(report["rank"], report)
                self._since.notes.ended.append((report.get("code"), report.get("signal"), detail, *key, report["rank"]))
                self._tell(*events)
            case "agent":
                self._agents_spoke = True
                self._tell(*gang.hear_agent(report["rank"], report["said"]))
            case "gone":
                self._come_back(gang)
                self._tell(*gang.vanish())
            case "output lost":
                self._on_trouble(f"{key[0]}: output of rank {report['rank']} is being lost: {report['why']}")
            case "stuck":
                pids = ", ".join(map(str, report["pids"]))
                self._on_trouble(f"{key[0]}: SIGKILL does not end {pids}; its nodes stay taken until they end")

    def _greeted(self, line: int, gangs: set[Key]) -> None:
        """Handles a supervisor's hello with its gangs: gangs launched before that it does not know have vanished."""
        for key, gang in self._book.items():
            if _EARLIER <= gang.line < line and key not in gangs:
                self._come_back(gang)
                self._tell(*gang.vanish())
        for job_id, generation in gangs - self._book.keys():
            self._keeper.send({"do": "stop", "job": job_id, "generation": generation, "grace": 0})

    def _told_before(self) -> dict[str, Told]:
        """What agents said to the controller before this one, by `_name` of their gangs."""
        kept = self.store.meta(_TOLD)
        return msgspec.json.decode(kept, type=dict[str, Told]) if kept else {}

    def _remember_gang(self, state: JobState, told: Mapping[str, Told]) -> None:
        status = state.status
        if status.gone or not status.generation:
            return
        key = (state.id, status.generation)
        gang = remembered_gang(key, state.job, self.store.tasks(*key), told.get(_name(key)))
        gang.before = status
        told_again = status.phase is Phase.ADMITTED and status.target is None
        gang.line = -1 if told_again else _EARLIER
        self._book[key] = gang

    def _owner_gone(self, job_id: str) -> None:
        self._tell(JobEvent(job_id, Cancel(by="the end of its terminal")))

    def _come_back(self, gang: Gang) -> None:
        """A recovery that its last agents will not tell of any more counts as well."""
        for event in gang.come_back():
            self._agents_spoke = True
            self._tell(event)

    def _tell(self, *events: JobEvent) -> None:
        for event in events:
            self._inbox.put(event)


def _name(key: Key) -> str:
    return f"{key[0]} {key[1]}"


def _keep_clock(store: StateStore, sources: Sources) -> Clock:
    boot_id, _, kept_offset = (store.meta("clock") or "").rpartition(" ")
    kept = offset(sources, Kept(boot_id, int(kept_offset)) if boot_id else None, store.last_time())
    if (kept.boot_id, str(kept.offset)) != (boot_id, kept_offset):
        store.note(Notes(meta={"clock": f"{kept.boot_id} {kept.offset}"}))
    return Clock(sources, kept.offset)
