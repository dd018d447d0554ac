"""The gangs that the controllers of a state folder have launched: devices, start, reports of the supervisor, stop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from windlass.backends.inbox import Inbox
from windlass.backends.local import devices, submission_origins
from windlass.backends.local.launch_message import choose_port, is_free, spawn_message
from windlass.backends.local.launched_gang import (
    AgentRecord,
    Key,
    LaunchedGang,
    new_gang,
    remembered_gang,
    tasks_of,
    unknown_gang,
)
from windlass.backends.local.nodes import LocalCluster
from windlass.backends.local.paths import StatePaths, state_id
from windlass.backends.local.state_store import Notes, StateStore
from windlass.backends.local.supervisor_client import Acknowledgements, SupervisorClient
from windlass.backends.local.supervisor_connection import Report
from windlass.backends.local.supervisor_start import SupervisorLink
from windlass.backends.port import Changes
from windlass.core.lifecycle.commands import Launch, Stop
from windlass.core.lifecycle.events import Exit
from windlass.core.lifecycle.failure import end_of_stale_placement
from windlass.core.model.gang import demands_of
from windlass.core.model.status import JobState, Phase, Placement
from windlass.core.nodes.binding_check import find_stale_node, resources_by_node

_AGENT_RECORDS = "agent records"
_ACKNOWLEDGED = "acknowledged"
_EARLIER_CONTROLLER = 0
"""Connection number of gangs that an earlier controller launched; connections of this one count from 1."""


class GangCommit(NamedTuple):
    """The part of a commit that concerns gangs: those to launch, notes, and the reports that become durable."""

    gangs: list[LaunchedGang]
    notes: Notes
    reported: Acknowledgements


class LaunchedGangs:
    """Every gang that this controller or an earlier one has launched and that is not gone.

    `hello`: the message that begins a connection to the supervisor. `environment`: the base of the ranks' environment
    when the submission did not bring its client's. Events for the controller go to `inbox`, messages for people to
    `on_trouble`.
    """

    def __init__(
        self,
        paths: StatePaths,
        store: StateStore,
        cluster: LocalCluster,
        inbox: Inbox,
        link: SupervisorLink,
        hello: Mapping[str, Any],
        *,
        environment: Mapping[str, str],
        on_trouble: Callable[[str], None],
    ) -> None:
        self._paths, self._store, self._cluster = paths, store, cluster
        self._nodes = {node.name: node for node in cluster.nodes}
        self._state_id = state_id(paths)
        self._environment = environment
        self._inbox = inbox
        self._on_trouble = on_trouble
        self._by_key: dict[Key, LaunchedGang] = {}
        self._notes = Notes()
        """Ranks that started or ended since the last commit."""
        self._has_agent_messages = False
        """Whether agents have sent messages since the last commit."""
        supervisor, _, number = (store.meta(_ACKNOWLEDGED) or "").rpartition(" ")
        self.supervisor = SupervisorClient(
            paths,
            link,
            hello,
            Acknowledgements(supervisor, int(number or 0)),
            on_report=self._receive,
            on_hello=self._compare,
            on_trouble=on_trouble,
        )

    def recover(self, states: Iterable[JobState]) -> None:
        """Restores the gangs that should be alive, from the records of an earlier controller."""
        kept = self._store.meta(_AGENT_RECORDS)
        records = msgspec.json.decode(kept, type=dict[str, AgentRecord]) if kept else {}
        for state in states:
            status = state.status
            if status.is_gone or not status.generation:
                continue
            key = (state.id, status.generation)
            gang = remembered_gang(key, state.job, self._store.tasks(*key), records.get(_name(key)))
            gang.admission_status = status
            gang.may_have_started = status.phase is Phase.ADMITTED and status.target is None
            gang.connection = -1 if gang.may_have_started else _EARLIER_CONTROLLER
            self._by_key[key] = gang

    # --- commit --------------------------------------------------------------------------------------

    def begin_commit(self, changes: Changes) -> GangCommit:
        """Assigns devices to the gangs that these changes launch, and collects the notes since the last commit."""
        states = {state.id: state for state in changes.states}
        gangs: list[LaunchedGang] = []
        for launch in changes.commands:
            if not isinstance(launch, Launch) or (launch.job_id, launch.generation) in self._by_key:
                continue  # a launch is repeated after a restart of the controller
            state = states[launch.job_id]
            gang = new_gang((launch.job_id, launch.generation), state.job, launch.placement)
            gang.admission_status = state.status
            held = [device for other in (*self._by_key.values(), *gangs) for device in other.held_devices()]
            try:
                gang.devices = devices.assign_devices(state.job, launch.placement, self._cluster, held)
            except devices.NoDeviceError as error:
                gang.launch_error = str(error)
            gangs.append(gang)
        notes, self._notes = self._notes, Notes()
        notes.tasks = [task for gang in gangs for task in tasks_of(gang)]
        reported = self.supervisor.reported
        if self._has_agent_messages:  # acknowledged messages are not repeated
            records = {
                _name(gang.key): gang.agent_record
                for gang in self._by_key.values()
                if not gang.gone and gang.agent_record != AgentRecord()
            }
            notes.meta[_AGENT_RECORDS] = msgspec.json.encode(records).decode()
            self._has_agent_messages = False
        if reported.number:
            notes.meta[_ACKNOWLEDGED] = f"{reported.supervisor} {reported.number}"
        return GangCommit(gangs, notes, reported)

    def end_commit(self, commit: GangCommit) -> None:
        """Acknowledges what is durable now: its gangs may be launched, and reports up to it are not repeated."""
        self._by_key.update((gang.key, gang) for gang in commit.gangs)
        for key in [key for key, gang in self._by_key.items() if gang.gone]:
            del self._by_key[key]
        self.supervisor.acknowledge(commit.reported)

    # --- commands --------------------------------------------------------------------------------------

    def launch(self, command: Launch) -> None:
        """Sends a gang to the supervisor; reports the error if it cannot be launched."""
        job_id, generation = key = (command.job_id, command.generation)
        gang = self._by_key.get(key)
        if gang is None or gang.gone:
            return
        gang.connection = self.supervisor.connection.number
        others = [other for other in self._by_key.values() if other is not gang]
        try:
            name = f"{self._state_id}.{job_id}"  # another daemon on this machine may have a job of the same id
            gang.port = choose_port((name, generation), {other.port for other in others}, is_free)
        except OSError as error:
            gang.launch_error = str(error)
        if (failure := self._find_launch_failure(gang, others)) is not None:
            gang.give_up(failure)
            self._inbox.put(*gang.take_events())
            return
        inherited = submission_origins.environment_of(self._store, job_id)
        message = spawn_message(
            gang,
            nodes=self._nodes,
            logs=self._paths.generation_logs(*key),
            inherited=self._environment if inherited is None else inherited,
            state_id=self._state_id,
            owner=submission_origins.client_of(self._store, job_id),
            queue=next((queue for queue in self._cluster.queues if gang.job and queue.name == gang.job.queue), None),
        )
        self.supervisor.send(message)

    def _find_launch_failure(self, gang: LaunchedGang, others: Iterable[LaunchedGang]) -> Exit | None:
        """Returns why a gang cannot be launched. Its placement may be older than the present nodes."""
        if gang.launch_error:
            return Exit(lost=True, detail=gang.launch_error)
        if gang.job is None:
            return None
        # of a gang without a job only the name is known
        held = resources_by_node((other.job, other.nodes) for other in others if other.job and not other.gone)
        stale = find_stale_node(demands_of(gang.job), Placement(gang.nodes), self._nodes, held)
        return end_of_stale_placement(stale.message) if stale is not None else None

    def stop(self, command: Stop) -> None:
        """Sends SIGTERM to a gang, and SIGKILL after its grace. The supervisor answers with "gone", once."""
        key = (command.job_id, command.generation)
        gang = self._by_key.setdefault(key, unknown_gang(key))
        if gang.connection < 0:
            gang.connection = self.supervisor.connection.number
        self._send_stop(key, command.grace)

    def _send_stop(self, key: Key, grace: int) -> None:
        self.supervisor.send({"do": "stop", "job": key[0], "generation": key[1], "grace": grace})

    # --- reports of the supervisor ---------------------------------------------------------------------

    def _receive(self, report: Report) -> None:
        key = (report["job"], report["generation"])
        gang = self._by_key.get(key)
        if gang is None:
            return
        match report["report"]:
            case "started":
                rows = enumerate(report["pids"])
                self._notes.started += [(pid, ticks, *key, rank) for rank, (pid, ticks) in rows if pid]
                gang.start()
            case "exit":
                self._finish_recovery(gang)
                detail = gang.end_rank(report["rank"], report)
                self._notes.ended.append((report.get("code"), report.get("signal"), detail, *key, report["rank"]))
            case "agent":
                self._has_agent_messages = True
                gang.receive_agent_message(report["rank"], report["message"])
            case "gone":
                self._finish_recovery(gang)
                gang.members.vanish()
            case "output lost":
                self._on_trouble(f"{key[0]}: output of rank {report['rank']} is being lost: {report['error']}")
            case "stuck":
                pids = ", ".join(map(str, report["pids"]))
                self._on_trouble(f"{key[0]}: SIGKILL does not end {pids}; its nodes stay occupied until they end")
        self._inbox.put(*gang.take_events())

    def _compare(self, connection: int, gangs: set[Key]) -> None:
        """Handles a supervisor's hello with its gangs: gangs launched before that it does not know have vanished."""
        for key, gang in self._by_key.items():
            if _EARLIER_CONTROLLER <= gang.connection < connection and key not in gangs:
                self._finish_recovery(gang)
                gang.members.vanish()
                self._inbox.put(*gang.take_events())
        for key in gangs - self._by_key.keys():
            self._send_stop(key, 0)

    def _finish_recovery(self, gang: LaunchedGang) -> None:
        """Ends a recovery that the remaining agents will not report any more."""
        if gang.agent_record.recovery is not None:
            self._has_agent_messages = True
            gang.finish_recovery()


def _name(key: Key) -> str:
    return f"{key[0]} {key[1]}"
