"""Assigns agents to gangs, and passes their reports to the core, the status and the events of the gang."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from windlass.agent.rank_events import RankFailed, RanksSucceeded
from windlass.backends.kubernetes.agents.hub import Caller
from windlass.backends.kubernetes.agents.messages import Message
from windlass.backends.kubernetes.agents.progress import ranks_remembered, ranks_seen, training
from windlass.backends.kubernetes.agents.rendezvous import Ears, Rendezvous
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.gangs.run import Run
from windlass.backends.kubernetes.pods.agent_tokens import is_of
from windlass.backends.kubernetes.pods.pod_binding import generation_of
from windlass.backends.kubernetes.pods.pod_store import PodStore
from windlass.backends.kubernetes.status.events import EventRecorder, News
from windlass.backends.port import BackendEvent, JobEvent
from windlass.core.lifecycle.events import Exit, Recovered
from windlass.core.lifecycle.state_machine import step
from windlass.core.lifecycle.transitions import forgives
from windlass.core.model.status import JobState

HANG, RESTARTED, GIVEN_UP = "Hang", "RanksRestarted", "AgentsGivenUp"
"""Reasons of events."""
_OFTEN = 10_000
"""Milliseconds between two writes of a status in which only progress has changed."""
_LATEST = 30_000
"""Milliseconds after which a restart is reported although no agent has confirmed that ranks run again."""


@dataclass(frozen=True, slots=True)
class _Owed:
    """A failure during its recovery: it is reported to the controller once ranks run again."""

    generation: int
    """The agents' own generation number that follows."""
    failed: RankFailed
    at: int

    def event(self, run: Run, took: int) -> Recovered:
        """Returns the event for the controller; `took` in ms."""
        exit = _exit(self.failed)
        detail = f"{exit.detail} in {self.failed.id}"
        return Recovered(run.generation, self.generation, replace(exit, detail=detail), took)


@dataclass(slots=True)
class _Attended:
    gang: Gang
    run: Run
    meeting: Rendezvous
    written: int = 0
    """Time of its last status change, in ms."""
    owed: _Owed | None = None
    ahead: JobState | None = None
    """The state with failures that the controller was told of and has not committed yet."""
    given_up: bool = False
    """Whether coordinating its agents has failed with an unexpected error."""

    @property
    def state(self) -> JobState:
        """Returns the state of the gang with all known failures."""
        committed = self.gang.state
        return self.ahead if self.ahead is not None and _failures(self.ahead) > _failures(committed) else committed


@dataclass(slots=True)
class AgentRegistry:
    """Every gang whose agents have connected during this leadership term, by the uid of its object."""

    pods: PodStore
    gang_of: Callable[[Pod], Gang | None]
    announcer: EventRecorder
    tell: Callable[[BackendEvent], None]
    concern: Callable[[Gang], None]
    now: Callable[[], int]
    _attended: dict[str, _Attended] = field(default_factory=dict)
    _callers: dict[Caller, tuple[Rendezvous, str]] = field(default_factory=dict)

    # --- the host of the hub --------------------------------------------------------------------------------

    def welcome(self, hello: Message, caller: Caller) -> Callable[[Message], None] | None:
        """See `hub.Host`."""
        if hello["type"] != "hello":
            return None
        namespace, _, name = str(hello["name"]).partition("/")
        pod = self.pods.get(namespace, name)
        if pod is None or not is_of(pod, hello.get("token")):
            return None
        found = self._found(pod)
        if found is None:
            return None
        meeting, clock = found.meeting, asyncio.get_running_loop().time
        self._callers[caller] = meeting, name
        meeting.join(name, pod.spec.node_name, hello, caller, clock())
        return lambda said: meeting.hear(name, said, clock())

    def left(self, caller: Caller) -> None:
        """See `hub.Host`."""
        if (whose := self._callers.pop(caller, None)) is not None:
            meeting, name = whose
            meeting.left(name, caller)

    def look(self) -> None:
        """See `hub.Host`."""
        clock = asyncio.get_running_loop().time()
        for uid, each in list(self._attended.items()):
            try:
                self._look_at(uid, each, clock)
            except Exception as fault:  # noqa: BLE001 - one gang's: the agents of others are led on
                self._give_up(each, fault)

    def _look_at(self, uid: str, each: _Attended, clock: float) -> None:
        if each.gang.run is not each.run or each.run.stopping:
            del self._attended[uid]
            self._end(each)
            return
        if each.given_up:
            return
        self._hear_of_pods(each, clock)
        each.meeting.look(clock)
        if each.owed is not None and self._is_settled(each, each.owed):
            self._tell_of(each)
        if self.now() - each.written >= _OFTEN:
            self._write(each)

    def ranks_seen(self, gang: Gang) -> list[dict[str, Any]]:
        """Returns the present or last known activity of a gang's ranks."""
        each = self._attended.get(gang.home.uid)
        seen = ranks_seen(each.meeting.attendees.values(), self.now()) if each is not None else []
        return seen or ranks_remembered(gang.notes.training)

    # --- assigning agents -----------------------------------------------------------------------------------

    def _found(self, pod: Pod) -> _Attended | None:
        """Returns the gang of a pod that is a member of its run; None if it is not, or not known yet."""
        gang = self.gang_of(pod)
        run = gang.run if gang is not None else None
        if gang is None or run is None or run.stopping or generation_of(pod) != run.generation:
            return None
        places = gang.pod_names(run)
        if pod.metadata.name not in places:
            return None
        known = self._attended.get(gang.home.uid)
        if known is None or known.run is not run:
            if known is not None:
                self._end(known)
            known = self._attended[gang.home.uid] = _Attended(gang, run, self._meeting(gang, run))
        return None if known.given_up else known

    def _hear_of_pods(self, each: _Attended, clock: float) -> None:
        for name in each.meeting.missing():
            if self._has_left(each, name):
                each.meeting.feed(RanksSucceeded(name, each.meeting.crew.generation), clock)

    def _has_left(self, each: _Attended, name: str) -> bool:
        """Tells whether a member's ranks succeeded without a leader: its agent did not wait to be dismissed."""
        pod = self.pods.get(each.gang.home.namespace, name)
        return pod is not None and pod.status.phase == "Succeeded" and generation_of(pod) == each.run.generation

    def _end(self, each: _Attended) -> None:
        """Ends the rendezvous of a run that was replaced, or whose pods are being deleted."""
        self._tell_of(each)
        each.meeting.close()

    def _give_up(self, each: _Attended, fault: Exception) -> None:
        """Stops coordinating a gang's agents for this run: ranks continue, and a failure is a failure of the pod."""
        each.given_up = True
        each.meeting.close()
        note = f"its agents are led no more in this run, and ranks that fail end their pods: {fault!r}"
        self._announce(each.gang, GIVEN_UP, "Lead", note)

    def _meeting(self, gang: Gang, run: Run) -> Rendezvous:
        ears = Ears(
            forgives=partial(self._forgives, gang),
            restarted=partial(self._restarted, gang, run),
            hangs=partial(self._hangs, gang),
            closes=lambda: self._tell_of(self._attended[gang.home.uid]),  # before its pods report their ends
        )
        first = max(run.generation, gang.status.agent_generation + 1)
        return Rendezvous(gang.pod_names(run), first, ears, asyncio.get_running_loop().time(), gang.job.restart)

    # --- reports --------------------------------------------------------------------------------------------

    def _forgives(self, gang: Gang, failed: RankFailed) -> bool:
        each = self._attended[gang.home.uid]
        if any(self._has_left(each, name) for name in gang.pod_names(each.run)):  # it would be waited for indefinitely
            return False
        return forgives(each.state, _exit(failed), self.now())

    def _restarted(self, gang: Gang, run: Run, generation: int, why: str, failed: RankFailed | None) -> None:
        each = self._attended[gang.home.uid]
        if failed is None:
            note = f"{why}: ranks start again in their pods (generation {generation})"
            self._announce(gang, RESTARTED, "Restart", note)
        else:
            self._tell_of(each)
            each.owed = _Owed(generation, failed, self.now())
            each.ahead, _ = step(each.state, each.owed.event(run, 0), self.now())
        self._write(each)

    def _is_settled(self, each: _Attended, owed: _Owed) -> bool:
        here = each.meeting.attendees.get(owed.failed.id)
        again = here.recovered.generation if here is not None and here.recovered is not None else 0
        return again >= owed.generation or self.now() - owed.at > _LATEST

    def _tell_of(self, each: _Attended) -> None:
        """Reports that ranks run again after a failure, or would, had another event not intervened."""
        if (owed := each.owed) is not None:
            each.owed = None
            here = each.meeting.attendees.get(owed.failed.id)
            again = here.recovered if here is not None else None
            known = again is not None and again.generation == owed.generation
            took = round(again.seconds * 1000) if again is not None and known else self.now() - owed.at
            self.tell(JobEvent(each.gang.id, owed.event(each.run, took)))

    def _hangs(self, gang: Gang, rank: int, why: str) -> None:
        each = self._attended[gang.home.uid]
        pod = each.meeting.owner(rank)
        node = next((member.node for member in each.meeting.crew.present if member.id == pod), "")
        whose = f"{pod} on node {node}: " if pod else ""
        self._announce(gang, HANG, "Interrogate", f"{whose}{why}; ranks have been asked for their stacks")
        self._write(each, lastHang=f"{whose}{why}")

    def _announce(self, gang: Gang, reason: str, action: str, note: str) -> None:
        self.announcer.tell(News(gang.home, reason, action, note, self.now()))

    def _write(self, each: _Attended, **more: str | int) -> None:
        """Writes the gang's progress into its status, if it has changed."""
        gang, meeting = each.gang, each.meeting
        after = training(gang.notes.training, meeting.measured, meeting.crew.generation, self.now(), **more)
        if after != gang.notes.training and meeting.crew.generation:
            gang.notes.training, gang.notes.stale, each.written = after, True, self.now()
            self.concern(gang)


def _failures(state: JobState) -> int:
    return state.status.user_failures + state.status.infrastructure_failures


def _exit(failed: RankFailed) -> Exit:
    """Returns the end of a rank as the Exit of its member."""
    if failed.code < 0:
        return Exit(signal=-failed.code, detail=failed.why)
    return Exit(code=failed.code, detail=failed.why)
