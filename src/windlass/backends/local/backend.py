"""The local backend: `backends.port.Backend` with processes on this machine.

The order of a turn: reports of the supervisor and requests of the API become events (`wait`); the controller's changes
are written together with the backend's notes (`commit`), and only then acknowledged to the supervisor; then commands
are sent (`perform`). The supervisor repeats a report that was not committed; the controller repeats a command that was
committed and not carried out.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from windlass.backends import inbox
from windlass.backends.local import devices, folder_lock, reservation_notes
from windlass.backends.local.client_watch import ClientWatch
from windlass.backends.local.clock import SYSTEM, BootOffset, Clock, Sources, boot_offset
from windlass.backends.local.launch_message import choose_port, is_free, spawn_message
from windlass.backends.local.launched_gangs import AgentRecord, Key, LaunchedGang, new_gang, remembered_gang, tasks_of
from windlass.backends.local.nodes import LocalCluster
from windlass.backends.local.paths import StatePaths, prepare, state_id
from windlass.backends.local.state_store import Notes, StateStore, SubmissionOrigin, open_store
from windlass.backends.local.supervisor_client import Acknowledgements, SupervisorClient
from windlass.backends.local.supervisor_connection import Report
from windlass.backends.local.supervisor_start import Link, start_supervisor
from windlass.backends.port import BackendError, BackendEvent, Changes, JobArrived, JobEvent, Recovery
from windlass.core.lifecycle.commands import Command, Forget, Launch, Stop
from windlass.core.lifecycle.events import Cancel
from windlass.core.model.gang import demands_of
from windlass.core.model.job import Job
from windlass.core.model.reasons import Verdict
from windlass.core.model.reservation import Reservation
from windlass.core.model.snapshot import PastUsage
from windlass.core.model.status import TERMINAL, JobState, Phase, Placement, Status
from windlass.core.nodes.binding_check import find_stale_node

_PAST_USAGE = "past usage"
_AGENT_RECORDS = "agent records"
_EARLIER_CONTROLLER = 0
"""Connection number of gangs that an earlier controller launched; connections of this one count from 1."""
_RUN_LINGER = 2.0
"""Seconds that jobs of a `windlass run` outlive a controller that was killed."""


@dataclass(slots=True)
class _PendingCommit:
    """A commit that is repeated unchanged until it succeeds."""

    changes: Changes
    notes: Notes
    gangs: list[LaunchedGang]
    reported: Acknowledgements
    promises: list[asyncio.Future[None]]


@dataclass(slots=True)
class _Unwritten:
    """Notes and promises since the last commit began."""

    notes: Notes = field(default_factory=Notes)
    promises: list[asyncio.Future[None]] = field(default_factory=list)


class LocalBackend:
    """Processes on this machine, controlled from one state folder.

    `held`: the folder's lock, acquired here if None. `link`: a supervisor started beforehand. `environment`: the base
    of the ranks' environment when the submission did not bring its client's. `on_trouble` is called with messages for
    people that belong to no job. Raises HeldError, CorruptError, BackendError.
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
        """Reservations made at run time; those of the cluster file are in `cluster`."""
        self._environment = dict(os.environ if environment is None else environment)
        self._on_trouble = on_trouble
        self._nodes = {node.name: node for node in cluster.nodes}
        self._jobs: dict[str, Job] = {}
        self._gangs: dict[Key, LaunchedGang] = {}
        self._inbox = inbox.Inbox()
        self._clients = ClientWatch(self._client_ended)
        self._origins: dict[str, SubmissionOrigin] = {}
        self._unwritten = _Unwritten()
        self._has_agent_messages = False
        """Whether agents have sent messages since the last commit."""
        self._pending: _PendingCommit | None = None
        self._next_number = int(self.store.meta("next_number") or 1)
        hello = {"linger": None if kind == "up" else _RUN_LINGER, "offset": self._clock.offset}
        self._supervisor = SupervisorClient(
            self.paths,
            link,
            hello,
            on_report=self._receive,
            on_hello=self._compare_gangs,
            on_trouble=on_trouble,
        )

    # --- the port ------------------------------------------------------------------------------------

    def now(self) -> int:
        """Returns milliseconds since the Unix epoch; never goes back."""
        return self._clock.now()

    def recover(self) -> Recovery:
        """Returns every job that has not ended or has a ttl, and restores the gangs that should be alive."""
        states, records = self.store.recoverable(), self._earlier_records()
        supervisor, _, number = (self.store.meta("acknowledged") or "").rpartition(" ")
        self._supervisor.remember(Acknowledgements(supervisor, int(number or 0)))
        for state in states:
            if state.status.phase not in TERMINAL:
                self._jobs[state.id] = state.job
                self._remember_gang(state, records)
        for job_id, owner in self.store.owners().items():
            self._clients.add(job_id, owner)
        self._remove_logs(self.store.unremoved())
        past = self.store.meta(_PAST_USAGE)
        kept = msgspec.json.decode(past, type=dict[str, PastUsage]) if past else {}
        return Recovery(self.cluster.changed(self.reservations), tuple(states), kept)

    def finished(self, job_id: str) -> JobState | None:
        """Returns a job that has ended, by id."""
        state = self.store.job(job_id)
        return state if state is not None and state.status.phase in TERMINAL else None

    async def wait(self, until: int | None) -> Sequence[BackendEvent]:
        """Returns events of the supervisor and of the API, or none at `until`."""
        self._supervisor.attach()
        self._clients.watch()
        if self._pending is None:  # the last turn has ended, and changed nothing that had to be committed
            inbox.resolve(self._unwritten.promises)
            self._unwritten.promises.clear()
        await self._inbox.wait(None if until is None else (until - self.now()) / 1000)
        events, promises = self._inbox.take()
        self._unwritten.promises += promises
        return events

    async def commit(self, changes: Changes) -> Mapping[str, str]:
        """Writes the turn with everything noted since the last one. Raises BackendError."""
        pending = self._pending or self._begin(changes)
        if pending.changes is not changes:  # else reports of this turn would be acknowledged with the other
            raise BackendError("the turn before this one could not be written yet")
        self._pending = pending
        self.store.commit(changes, pending.notes)
        self._pending = None
        # durable from here on
        self._gangs.update((gang.key, gang) for gang in pending.gangs)
        self._forget_ended(changes)
        self._supervisor.acknowledge(pending.reported)
        inbox.resolve(pending.promises)
        return {}

    def perform(self, commands: Sequence[Command]) -> None:
        """Sends commands to the supervisor, or removes logs."""
        for command in commands:
            match command:
                case Launch(job_id, generation):
                    self._launch((job_id, generation))
                case Stop(job_id, generation, grace):
                    self._stop((job_id, generation), grace)
                case Forget(job_id):
                    self._remove_logs([job_id])

    # --- for the API ---------------------------------------------------------------------------------

    def reserve(self, count: int = 1) -> int:
        """Returns the first of `count` numbers for jobs about to be injected."""
        first = self._next_number
        self._next_number += count
        return first

    def inject(self, event: BackendEvent, origin: SubmissionOrigin | None = None) -> asyncio.Future[None]:
        """Passes an event to the controller. The future is done when its consequences are durable.

        `origin` comes with a `JobArrived`: the client's environment, and the client that the job must not outlive.
        """
        promise = asyncio.get_running_loop().create_future()
        if isinstance(event, JobArrived) and origin is not None:
            self._origins[event.job_id] = origin
            if origin.owner:
                self._clients.add(event.job_id, origin.owner)
        self._inbox.put(event, promise)
        return promise

    def wake(self) -> None:
        """Makes `wait` return."""
        self._inbox.wake()

    def set_cluster(self, cluster: LocalCluster) -> asyncio.Future[None]:
        """Replaces the nodes and queues."""
        self.cluster = cluster
        self._nodes = {node.name: node for node in cluster.nodes}
        return self.inject(cluster.changed(self.reservations))

    def set_reservations(self, reservations: tuple[Reservation, ...]) -> asyncio.Future[None]:
        """Replaces the reservations made at run time; they are on disk when this returns. Raises BackendError."""
        self.store.note(reservation_notes.notes(reservations))
        self.reservations = reservations
        return self.inject(self.cluster.changed(reservations))

    def note_verdicts(self, verdicts: Mapping[str, Verdict]) -> None:
        """Stores, with the next commit, the reasons of waiting jobs, for `why` without a controller."""
        now = self.now()
        self._unwritten.notes.verdicts.update((job_id, (now, verdict)) for job_id, verdict in verdicts.items())

    def has_living_jobs(self) -> bool:
        """Tells whether any job has not ended."""
        return bool(self._jobs)

    def close(self, *, end: bool = False) -> None:
        """Releases the folder. `end`: ends the supervisor with every process; else they continue."""
        self._clients.close()
        self._supervisor.close(end=end)
        self.store.close()
        self._lock.release()

    # --- commit --------------------------------------------------------------------------------------

    def _begin(self, changes: Changes) -> _PendingCommit:
        since, self._unwritten = self._unwritten, _Unwritten()
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
        reported = self._supervisor.reported
        if self._has_agent_messages:  # acknowledged messages are not repeated
            records = {
                _name(gang.key): gang.agent_record
                for gang in self._gangs.values()
                if not gang.gone and gang.agent_record != AgentRecord()
            }
            notes.meta[_AGENT_RECORDS] = msgspec.json.encode(records).decode()
            self._has_agent_messages = False
        if changes.past:
            notes.meta[_PAST_USAGE] = msgspec.json.encode(changes.past).decode()
        if reported.number:
            notes.meta["acknowledged"] = f"{reported.supervisor} {reported.number}"
        return _PendingCommit(changes, notes, gangs, reported, since.promises)

    def _prepare(self, launches: Iterable[Launch], statuses: Mapping[str, Status]) -> list[LaunchedGang]:
        """Assigns devices to every new gang."""
        gangs: list[LaunchedGang] = []
        for launch in launches:
            key = (launch.job_id, launch.generation)
            if key in self._gangs:  # repeated after a restart
                continue
            gang = new_gang(key, self._jobs[launch.job_id], launch.placement)
            gang.admission_status = statuses.get(launch.job_id, gang.admission_status)
            self._assign_devices(gang, launch, [*self._gangs.values(), *gangs])
            gangs.append(gang)
        return gangs

    def _assign_devices(self, gang: LaunchedGang, launch: Launch, others: Sequence[LaunchedGang]) -> None:
        held = [device for other in others for device in other.held_devices()]
        try:
            gang.devices = devices.assign_devices(self._jobs[launch.job_id], launch.placement, self.cluster, held)
        except devices.NoDeviceError as error:
            gang.launch_error = str(error)

    def _forget_ended(self, changes: Changes) -> None:
        for state in changes.states:
            if state.status.phase in TERMINAL:
                self._jobs.pop(state.id, None)
                self._clients.remove(state.id)
        for key in [key for key, gang in self._gangs.items() if gang.gone]:
            del self._gangs[key]

    # --- perform -------------------------------------------------------------------------------------

    def _launch(self, key: Key) -> None:
        gang = self._gangs.get(key)
        if gang is None or gang.gone:
            return
        gang.connection = self._supervisor.connection.number
        try:
            name = f"{self._state_id}.{key[0]}"  # another daemon on this machine may have a job of the same id
            gang.port = choose_port((name, key[1]), {other.port for other in self._gangs.values()}, is_free)
        except OSError as error:
            gang.launch_error = str(error)
        gang.launch_error = gang.launch_error or self._find_stale_node(gang)
        if gang.launch_error:
            self._report(*gang.give_up())
            return
        inherited = self.store.environment(key[0])
        message = spawn_message(
            gang,
            nodes=self._nodes,
            logs=self.paths.generation_logs(*key),
            inherited=self._environment if inherited is None else inherited,
            state_id=self._state_id,
            owner=self.store.owner(key[0]),
            queue=next((queue for queue in self.cluster.queues if gang.job and queue.name == gang.job.queue), None),
        )
        self._supervisor.send(message)

    def _find_stale_node(self, gang: LaunchedGang) -> str:
        """Checks the placement against the nodes as they are now: the plan may be older. Returns the error, or ""."""
        if gang.job is None:
            return ""
        held: dict[str, Counter[str]] = {}
        for other in self._gangs.values():
            for node, resources in other.held_resources().items() if other is not gang else ():
                held.setdefault(node, Counter()).update(resources)
        stale = find_stale_node(demands_of(gang.job), Placement(gang.nodes), self._nodes, held)
        return stale.message if stale is not None else ""

    def _stop(self, key: Key, grace: int) -> None:
        gang = self._gangs.setdefault(key, LaunchedGang(key))
        if gang.connection < 0:
            gang.connection = self._supervisor.connection.number
        self._supervisor.send({"do": "stop", "job": key[0], "generation": key[1], "grace": grace})

    def _remove_logs(self, job_ids: Iterable[str]) -> None:
        for job_id in job_ids:
            import shutil  # noqa: PLC0415 - few runs forget a job

            shutil.rmtree(self.paths.job_logs(job_id), ignore_errors=True)
            self._unwritten.notes.removed.append(job_id)

    # --- reports -------------------------------------------------------------------------------------

    def _receive(self, report: Report) -> None:
        key = (report["job"], report["generation"])
        gang = self._gangs.get(key)
        if gang is None:
            return
        match report["report"]:
            case "started":
                rows = enumerate(report["pids"])
                self._unwritten.notes.started += [(pid, ticks, *key, rank) for rank, (pid, ticks) in rows if pid]
                self._report(*gang.start())
            case "exit":
                self._report_recovery(gang)
                events, detail = gang.end_rank(report["rank"], report)
                self._unwritten.notes.ended.append(
                    (report.get("code"), report.get("signal"), detail, *key, report["rank"])
                )
                self._report(*events)
            case "agent":
                self._has_agent_messages = True
                self._report(*gang.receive_agent_message(report["rank"], report["message"]))
            case "gone":
                self._report_recovery(gang)
                self._report(*gang.vanish())
            case "output lost":
                self._on_trouble(f"{key[0]}: output of rank {report['rank']} is being lost: {report['error']}")
            case "stuck":
                pids = ", ".join(map(str, report["pids"]))
                self._on_trouble(f"{key[0]}: SIGKILL does not end {pids}; its nodes stay occupied until they end")

    def _compare_gangs(self, connection: int, gangs: set[Key]) -> None:
        """Handles a supervisor's hello with its gangs: gangs launched before that it does not know have vanished."""
        for key, gang in self._gangs.items():
            if _EARLIER_CONTROLLER <= gang.connection < connection and key not in gangs:
                self._report_recovery(gang)
                self._report(*gang.vanish())
        for job_id, generation in gangs - self._gangs.keys():
            self._supervisor.send({"do": "stop", "job": job_id, "generation": generation, "grace": 0})

    def _earlier_records(self) -> dict[str, AgentRecord]:
        """Returns the agents' records that the previous controller stored, by `_name` of their gangs."""
        kept = self.store.meta(_AGENT_RECORDS)
        return msgspec.json.decode(kept, type=dict[str, AgentRecord]) if kept else {}

    def _remember_gang(self, state: JobState, records: Mapping[str, AgentRecord]) -> None:
        status = state.status
        if status.gone or not status.generation:
            return
        key = (state.id, status.generation)
        gang = remembered_gang(key, state.job, self.store.tasks(*key), records.get(_name(key)))
        gang.admission_status = status
        is_repeated = status.phase is Phase.ADMITTED and status.target is None
        gang.connection = -1 if is_repeated else _EARLIER_CONTROLLER
        self._gangs[key] = gang

    def _client_ended(self, job_id: str) -> None:
        self._report(JobEvent(job_id, Cancel(by="the end of its terminal")))

    def _report_recovery(self, gang: LaunchedGang) -> None:
        """Reports a recovery that the remaining agents will not report any more."""
        for event in gang.report_recovery():
            self._has_agent_messages = True
            self._report(event)

    def _report(self, *events: JobEvent) -> None:
        for event in events:
            self._inbox.put(event)


def _name(key: Key) -> str:
    return f"{key[0]} {key[1]}"


def _keep_clock(store: StateStore, sources: Sources) -> Clock:
    boot_id, _, kept_offset = (store.meta("clock") or "").rpartition(" ")
    kept = boot_offset(sources, BootOffset(boot_id, int(kept_offset)) if boot_id else None, store.last_time())
    if (kept.boot_id, str(kept.offset)) != (boot_id, kept_offset):
        store.note(Notes(meta={"clock": f"{kept.boot_id} {kept.offset}"}))
    return Clock(sources, kept.offset)
