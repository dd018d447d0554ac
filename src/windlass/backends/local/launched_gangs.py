"""The gangs a controller has launched and not yet seen the end of: from ends of ranks to ends of members.

A member (replica) has ended at its first rank that fails, or when the last of its ranks has ended well. Pure.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from windlass.backends.local.devices import Assigned
from windlass.backends.local.exit_reports import ExitReport, RankName, exit_of
from windlass.backends.local.state_reader import Task
from windlass.backends.members import MemberTracker
from windlass.backends.port import JobEvent
from windlass.core.lifecycle.events import Exit, Recovered
from windlass.core.model.elastic_size import sized
from windlass.core.model.job import Job, Launcher
from windlass.core.model.status import Placement, Status
from windlass.launch.ranks import Rank, first_rank, ranks_of, role_named

Key: TypeAlias = tuple[str, int]
"""Job id and generation."""


@dataclass(slots=True)
class Back:
    """Ranks run again: as which generation of their agents' count, after what, and in how many seconds by member."""

    crew: int
    exit: Exit
    seconds: dict[int, float] = field(default_factory=dict)


@dataclass(slots=True)
class Told:
    """What the agents of a gang have said, and its controller has made nothing of yet. It outlives controllers."""

    fault: dict[str, Any] | None = None
    """What went wrong, and nobody has put right yet, as `wire.Verdict`."""
    back: Back | None = None
    """A recovery that not all of them have told of."""


@dataclass(slots=True)
class Gang:
    """One generation of a job, whose `job` is as large as this generation.

    `job` and `ranks` are None and empty if nothing is known of it but its name.
    """

    key: Key
    job: Job | None = None
    nodes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    devices: Assigned = field(default_factory=dict)
    port: int = 0
    ranks: tuple[Rank, ...] = ()
    line: int = -1
    """On which line to a supervisor its launch was said; -1: not yet."""
    cannot: str = ""
    """Why it cannot be launched at all; "" if it can."""
    left: dict[int, set[int]] = field(default_factory=dict)
    """Member → its ranks that have not ended. Members that have ended are not in here."""
    members: MemberTracker = field(init=False)

    before: Status = field(default_factory=Status)
    """As it was when this generation was decided on: what of its limits was used up."""
    told: Told = field(default_factory=Told)

    def __post_init__(self) -> None:
        # the supervisor reports ends in the order in which they happen
        self.members = MemberTracker(self.key[1], len(self.left), settling=0)

    @property
    def gone(self) -> bool:
        """Whether the end of its last process was reported."""
        return self.members.gone

    def who(self, rank: Rank) -> RankName:
        """The rank as people know it."""
        by_agent = self.job is not None and self.job.launcher is Launcher.AGENT
        number = None if by_agent else rank.number
        return RankName(number, rank.role, rank.replica, self.nodes[rank.role][rank.replica])

    def hear_agent(self, member: int, said: Mapping[str, Any]) -> list[JobEvent]:
        """What an agent says of its ranks: what went wrong, or that they run again. All have to, for it to be told."""
        if said.get("type") == "verdict":  # of several the first: others then lost their peer
            fault = self.told.fault
            known = fault is not None and fault["generation"] == said["generation"]
            self.told.fault = fault if known else dict(said)
        if said.get("type") != "recovered":
            return []
        crew, events = int(said["generation"]), []
        back = self.told.back
        if back is None or back.crew != crew:
            events = self.come_back()
            lost = Exit(signal=signal.SIGKILL, detail=str(said["reason"]))
            back = Back(crew, lost if self.told.fault is None else self._exit_by(self.told.fault))
            self.told = Told(back=back)
        back.seconds[member] = float(said["seconds"])
        return [*events, *self.come_back()] if set(self.left) <= set(back.seconds) else events

    def come_back(self) -> list[JobEvent]:
        """Tell what is known of a recovery, as long as its slowest agent took: all have told, or no more will."""
        back, self.told.back = self.told.back, None
        if back is None:
            return []
        took = round(max(back.seconds.values()) * 1000)
        return [JobEvent(self.key[0], Recovered(self.key[1], back.crew, back.exit, took))]

    def _exit_by(self, fault: Mapping[str, Any]) -> Exit:
        code, rank = int(fault["code"]), int(fault["rank"])
        member = next((each for each in self.ranks if self._has(each, rank)), None)
        if fault["kind"] == "hang" or member is None or self.job is None:
            return Exit(code=code, detail=str(fault["reason"]))
        who = self.who(member)._replace(rank=rank)
        tried = ExitReport((), self.job.workdir)
        found = exit_of(who, {"signal": -code} if code < 0 else {"code": code}, tried)
        words = fault.get("message", "")
        return replace(found, detail=f"{found.detail}: {words}") if words else found

    def _has(self, member: Rank, rank: int) -> bool:
        assert self.job is not None  # noqa: S101 - it has members
        first = first_rank(self.job, member)
        return first <= rank < first + role_named(self.job, member.role).procs

    def taken(self) -> Iterable[str]:
        """The devices it holds."""
        return () if self.gone else (device for devices in self.devices.values() for device in devices)

    def start(self) -> list[JobEvent]:
        """All its ranks have been started."""
        for member in range(self.members.count):
            self.members.start(member)
        return self._events()

    def give_up(self) -> list[JobEvent]:
        """It cannot be launched: its first member ends with the reason."""
        self.left.pop(0, None)
        self.members.lose(0, self.cannot)
        return self._events()

    def end_rank(self, number: int, report: Mapping[str, Any]) -> tuple[list[JobEvent], str]:
        """A rank has ended. Returns the end of its member, if this is it, and the rank's own end in words."""
        if self.job is None or number >= len(self.ranks):
            return [], ""
        rank = self.ranks[number]
        tried = ExitReport(role_named(self.job, rank.role).command, self.job.workdir)
        exit = exit_of(self.who(rank), report, tried)
        if self.told.fault is not None and "code" in report and not exit.ok:  # of its own ranks, or another agent's
            exit = self._exit_by(self.told.fault)
        waiting = self.left.get(rank.member)
        if waiting is None:
            return [], exit.detail
        waiting.discard(number)
        if exit.ok and waiting:
            return [], exit.detail
        del self.left[rank.member]
        self.members.end(rank.member, exit)
        return self._events(), exit.detail

    def vanish(self) -> list[JobEvent]:
        """Nothing is left of it."""
        self.members.vanish()
        return self._events()

    def _events(self) -> list[JobEvent]:
        return [JobEvent(self.key[0], event) for event in self.members.take_events(0)]


def new_gang(key: Key, job: Job, placement: Placement) -> Gang:
    """A gang about to be launched, still without devices."""
    job = sized(job, placement)
    ranks = ranks_of(job)
    left: dict[int, set[int]] = {}
    for rank in ranks:
        left.setdefault(rank.member, set()).add(rank.number)
    return Gang(key, job, dict(placement.nodes), ranks=ranks, left=left)


def remembered_gang(key: Key, job: Job, tasks: Iterable[Task], told: Told | None = None) -> Gang:
    """A gang as an earlier controller has written it down."""
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
    gang.told = told or Told()
    return gang


def tasks_of(gang: Gang) -> list[Task]:
    """One row for each rank, as it is before the start."""
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
