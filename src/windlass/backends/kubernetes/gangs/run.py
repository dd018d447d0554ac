"""One start of a gang as pods: which pod is which member, where each belongs, and what of it has been told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from windlass.core.lifecycle.events import Event, Exit, GangGone, MemberExited, Started
from windlass.core.model.job import Job
from windlass.core.model.status import Placement


class Stage(StrEnum):
    """How far a pod has come."""

    MISSING = "missing"
    """Not made yet, or gone."""
    WAITING = "waiting"
    """On no node, or on its node and not started."""
    RUNNING = "running"
    ENDED = "ended"
    """Nothing of it is alive."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a run must know of a pod."""

    stage: Stage
    exit: Exit | None = None
    """How it ended, or why it never will start; None while neither is known."""
    ran: bool = False
    """Its program has begun."""
    dismissed: bool = False
    """It was told to go."""


GONE = Seen(Stage.MISSING)


@dataclass(frozen=True, slots=True)
class Slot:
    """One member's place: `number` counts over the gang, `index` within the role."""

    number: int
    role: str
    index: int
    node: str


def slots(job: Job, placement: Placement) -> Sequence[Slot]:
    """Every member of the gang, in the order of ranks."""
    places = [(role.name, *each) for role in job.roles for each in enumerate(placement.nodes.get(role.name, ()))]
    return tuple(Slot(number, role, index, node) for number, (role, index, node) in enumerate(places))


@dataclass(slots=True)
class Run:
    """A generation of a gang, from its launch until nothing of it is left."""

    generation: int
    slots: Sequence[Slot]
    ordered: bool = False
    """This controller has been told to launch it."""
    launched: bool = False
    """Every pod has been there: one that is missing from now on is lost."""
    started: bool = False
    """`Started` was told."""
    told: set[int] = field(default_factory=set)
    """Members whose end was told."""
    failed: dict[int, Exit] = field(default_factory=dict)
    """Members that could not be put on their nodes, or would have to go on where nothing may start any more."""
    made_by_others: frozenset[int] = frozenset()
    """Members whose pods a launcher's Job makes, some time after the others."""
    servers: frozenset[str] = frozenset()
    """Roles that end only when they are told to: they are done when all others have succeeded."""
    failure: bool = False
    """The end of a member that had not succeeded was told."""
    judged: bool = False
    """Its members are made anew one by one: an end of one of them means nothing by itself."""
    bound: set[str] = field(default_factory=set)
    """Uids of pods made by others that were put on their nodes."""
    dismissed: set[str] = field(default_factory=set)
    """Uids of pods that a judgement has told to go."""
    outcome: Exit | None = None
    """What all of a judged run has come to: of all its members, or of the first if it has failed."""
    stopping: bool = False
    grace: int = 30
    """Seconds that its pods have to end."""
    busy: bool = False
    """Requests are under way that could yet bring one of its pods to life."""
    accompanying: bool = False
    """What stands beside its pods is being made: a launcher's Job would bring more of them to life."""
    gone: bool = False
    """`GangGone` was told: nothing more will be heard."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """Replicas by role."""
        return Counter(slot.role for slot in self.slots)

    @property
    def succeeded(self) -> bool:
        """Whether every member has."""
        return not self.failure and len(self.told) == len(self.slots)

    def hear(self, pods: Mapping[int, Seen], *, more_may_come: bool = False) -> list[Event]:
        """What its pods tell that was not told before: Started, then ends in order, then GangGone.

        `more_may_come`: somebody who makes pods of it is yet to end.
        """
        if self.gone:
            return []
        events: list[Event] = []
        # 1. all of it runs, or did
        if not self.started and not self.stopping and self._all_have_started(pods):
            self.started = True
            events.append(Started(self.generation))
        # 2. who has ended
        for slot in self.slots:
            end = self._end(slot.number, pods.get(slot.number, GONE))
            early = end is not None and end.ok and not (self.started or self.stopping or self.judged)
            if slot.number not in self.told and end is not None and not early:  # who is quick waits for the others
                self.told.add(slot.number)
                self.failure = self.failure or not end.ok
                events.append(MemberExited(self.generation, slot.number, end))
        events += self._release()
        # 3. nothing is left
        at_rest = not (self.busy or self.accompanying or more_may_come)
        if self.stopping and at_rest and not any(alive(seen) for seen in pods.values()):
            self.gone = True
            events.append(GangGone(self.generation))
        return events

    def _release(self) -> list[Event]:
        """Whoever served the others, once nobody is left to be served."""
        served = {slot.number for slot in self.slots if slot.role not in self.servers}
        if not self.servers or self.judged or self.stopping or self.failure or not served <= self.told:
            return []
        left = [slot.number for slot in self.slots if slot.number not in self.told]
        self.told.update(left)
        return [
            MemberExited(self.generation, number, Exit(code=0, detail="it is not needed any more")) for number in left
        ]

    def _all_have_started(self, pods: Mapping[int, Seen]) -> bool:
        return bool(self.slots) and all(pods.get(slot.number, GONE).ran for slot in self.slots)

    def _end(self, number: int, seen: Seen) -> Exit | None:
        if number in self.failed and not self.stopping:
            return self.failed[number]
        if self.judged:
            return self.outcome if self.outcome is not None and (self.outcome.ok or number == 0) else None
        if seen.exit is not None and seen.exit.ok and seen.dismissed and not self.stopping:
            return Exit(lost=True, detail=f"the pod of {self._named(number)} was deleted")
        if seen.exit is not None:
            return seen.exit
        if seen.stage is Stage.MISSING and self.launched and number not in self.made_by_others:
            return Exit(lost=True, detail=f"the pod of {self._named(number)} is gone")
        return None

    def _named(self, number: int) -> str:
        slot = self.slots[number]
        return f"{slot.role}/{slot.index} on {slot.node}"


def alive(seen: Seen) -> bool:
    """Whether something of it may be running, or come to run."""
    return seen.stage in (Stage.WAITING, Stage.RUNNING)
