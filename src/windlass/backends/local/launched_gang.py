"""The gangs that a controller has launched and that have not ended: ends of ranks become ends of members. Pure.

A member (replica) has ended at its first rank that fails, or when the last of its ranks has succeeded.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from windlass.backends.local.devices import Assigned
from windlass.backends.local.exit_reports import RankCommand, RankName, exit_of
from windlass.backends.local.state_reader import Task
from windlass.backends.members import MemberTracker
from windlass.backends.port import JobEvent
from windlass.core.lifecycle.events import Exit, Recovered
from windlass.core.model.elastic_size import job_in_size
from windlass.core.model.job import Job, Launcher
from windlass.core.model.status import Placement, Status
from windlass.launch.ranks import Rank, first_rank, ranks_of, role_named

Key: TypeAlias = tuple[str, int]
"""Job id and generation."""


@dataclass(slots=True)
class RecoveryInPlace:
    """A recovery in place: the agents' own generation number, the cause, and the seconds that it took by member."""

    agent_generation: int
    exit: Exit
    seconds: dict[int, float] = field(default_factory=dict)


@dataclass(slots=True)
class AgentRecord:
    """Messages of a gang's agents that the controller has not turned into events yet. They outlive controllers."""

    fault: dict[str, Any] | None = None
    """The fault that no agent has recovered from yet, as `wire.RankFailure`."""
    recovery: RecoveryInPlace | None = None
    """A recovery that not all agents have reported yet."""


@dataclass(slots=True)
class LaunchedGang:
    """One generation of a job; `job` has the size of this generation.

    `job` and `ranks` are None and empty if only the name of the gang is known.
    """

    key: Key
    members: MemberTracker
    job: Job | None = None
    nodes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    devices: Assigned = field(default_factory=dict)
    port: int = 0
    ranks: tuple[Rank, ...] = ()
    connection: int = -1
    """Number of the supervisor connection on which the launch was sent; -1: not sent yet."""
    may_have_started: bool = False
    """Whether an earlier controller may have sent the launch."""
    launch_error: str = ""
    """The error that prevents its launch; "" for none."""
    running_ranks: dict[int, set[int]] = field(default_factory=dict)
    """Member → its ranks that have not ended. Members that have ended are not included."""
    admission_status: Status = field(default_factory=Status)
    """The status at the time of this generation's admission: the used part of its restart limits."""
    agent_record: AgentRecord = field(default_factory=AgentRecord)
    recoveries: list[Recovered] = field(default_factory=list)
    """Recoveries in place that `take_events` has not returned yet."""

    @property
    def gone(self) -> bool:
        """Tells whether the end of its last process was reported."""
        return self.members.gone

    def receive_agent_message(self, member: int, message: Mapping[str, Any]) -> None:
        """Handles an agent's message: a fault, or a recovery, which counts once all agents have reported it."""
        if message.get("type") == "failure":  # the first of several: the others then lost their peer
            fault = self.agent_record.fault
            known = fault is not None and fault["generation"] == message["generation"]
            self.agent_record.fault = fault if known else dict(message)
        if message.get("type") != "recovery":
            return
        agent_generation = int(message["generation"])
        recovery = self.agent_record.recovery
        if recovery is None or recovery.agent_generation != agent_generation:
            self.finish_recovery()
            lost = Exit(signal=signal.SIGKILL, detail=str(message["reason"]))
            recovery = RecoveryInPlace(
                agent_generation, lost if self.agent_record.fault is None else self._exit_by(self.agent_record.fault)
            )
            self.agent_record = AgentRecord(recovery=recovery)
        recovery.seconds[member] = float(message["seconds"])
        if set(self.running_ranks) <= set(recovery.seconds):
            self.finish_recovery()

    def finish_recovery(self) -> None:
        """Ends a recovery in the time of its slowest agent: all have reported, or no more will."""
        recovery, self.agent_record.recovery = self.agent_record.recovery, None
        if recovery is not None:
            took = round(max(recovery.seconds.values()) * 1000)
            self.recoveries.append(Recovered(self.key[1], recovery.agent_generation, recovery.exit, took))

    def _exit_by(self, fault: Mapping[str, Any]) -> Exit:
        code, rank = int(fault["code"]), int(fault["rank"])
        member = next((each for each in self.ranks if self._has(each, rank)), None)
        if fault["kind"] == "hang" or member is None or self.job is None:
            return Exit(code=code, detail=str(fault["reason"]))
        name = _name(self.job, member, self.nodes)._replace(rank=rank)
        command = RankCommand((), self.job.workdir)
        found = exit_of(name, {"signal": -code} if code < 0 else {"code": code}, command)
        words = fault.get("message", "")
        return replace(found, detail=f"{found.detail}: {words}") if words else found

    def _has(self, member: Rank, rank: int) -> bool:
        assert self.job is not None  # noqa: S101 - it has members
        first = first_rank(self.job, member)
        return first <= rank < first + role_named(self.job, member.role).procs

    def held_devices(self) -> Iterable[str]:
        """Returns the ids of the devices that the gang holds."""
        return () if self.gone else (device for devices in self.devices.values() for device in devices)

    def start(self) -> None:
        """All ranks have started."""
        for member in range(self.members.count):
            self.members.start(member)

    def give_up(self, exit: Exit) -> None:
        """The gang cannot be launched: `exit` is the end of its first member."""
        self.running_ranks.pop(0, None)
        self.members.end(0, exit)

    def end_rank(self, number: int, report: Mapping[str, Any]) -> str:
        """A rank has ended, and perhaps its member with it. Returns a description of the rank's end."""
        if self.job is None or number >= len(self.ranks):
            return ""
        rank = self.ranks[number]
        command = RankCommand(role_named(self.job, rank.role).command, self.job.workdir)
        exit = exit_of(_name(self.job, rank, self.nodes), report, command)
        if (
            self.agent_record.fault is not None and "code" in report and not exit.ok
        ):  # its own rank, or a rank of another agent
            exit = self._exit_by(self.agent_record.fault)
        running = self.running_ranks.get(rank.member)
        if running is None:
            return exit.detail
        running.discard(number)
        if running and exit.ok:
            return exit.detail
        del self.running_ranks[rank.member]
        self.members.end(rank.member, exit)
        return exit.detail

    def take_events(self) -> list[JobEvent]:
        """Returns the events that follow from the calls of the methods above since the last call."""
        recoveries, self.recoveries = self.recoveries, []
        return [JobEvent(self.key[0], event) for event in (*recoveries, *self.members.take_events(0))]


def _name(job: Job, rank: Rank, nodes: Mapping[str, tuple[str, ...]]) -> RankName:
    """Returns the rank as people refer to it."""
    number = None if job.launcher is Launcher.AGENT else rank.number
    return RankName(number, rank.role, rank.replica, nodes[rank.role][rank.replica])


def unknown_gang(key: Key) -> LaunchedGang:
    """Creates a gang of which only the name is known."""
    return LaunchedGang(key, MemberTracker(key[1], 0))


def new_gang(key: Key, job: Job, placement: Placement) -> LaunchedGang:
    """Creates a gang that is about to be launched, without devices."""
    job = job_in_size(job, placement)
    ranks = ranks_of(job)
    running_ranks: dict[int, set[int]] = {}
    for rank in ranks:
        running_ranks.setdefault(rank.member, set()).add(rank.number)
    # the supervisor reports ends in the order in which they happened
    members = MemberTracker(key[1], len(running_ranks), settling=0)
    return LaunchedGang(key, members, job, dict(placement.nodes), ranks=ranks, running_ranks=running_ranks)


def remembered_gang(key: Key, job: Job, tasks: Iterable[Task], agent_record: AgentRecord | None = None) -> LaunchedGang:
    """Creates a gang from the record of an earlier controller."""
    tasks = list(tasks)
    nodes: dict[str, dict[int, str]] = {}
    for task in tasks:
        nodes.setdefault(task.role, {})[task.replica] = task.node
    placement = Placement({role: tuple(by[index] for index in sorted(by)) for role, by in nodes.items()})
    gang = new_gang(key, job, placement)
    gang.devices = {(task.role, task.replica): task.devices for task in tasks}
    if any(task.pid is not None for task in tasks):
        gang.start()
    for task in tasks:
        if task.code is not None:
            gang.end_rank(task.rank, {"code": task.code})
        elif task.signal is not None:
            gang.end_rank(task.rank, {"signal": task.signal})
    gang.take_events()  # the earlier controller has received them
    gang.agent_record = agent_record or AgentRecord()
    return gang


def tasks_of(gang: LaunchedGang) -> list[Task]:
    """Returns one task for each rank, as it is before the start."""
    job_id, generation = gang.key
    return [
        Task(
            job_id,
            generation,
            rank.number,
            rank.role,
            rank.replica,
            gang.nodes[rank.role][rank.replica],
            gang.devices.get((rank.role, rank.replica), ()),
        )
        for rank in gang.ranks
    ]
