"""The rendezvous of the agents of one run, coordinated from outside by the rules of an agent that leads.

Agents are identified by their pods. The end of a connection means nothing: the end of a pod is observed elsewhere, and
a
living agent connects again. A new leader adopts the generation that connected agents report.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from windlass import wire
from windlass.agent.hang_detection import HangLimits, SlowestRank, detect_hang
from windlass.agent.rank_events import RankFailed, RanksStopped
from windlass.agent.rendezvous import state_machine as rules
from windlass.backends.kubernetes.agents import messages
from windlass.backends.kubernetes.agents.messages import Message
from windlass.core.model.job import RestartPolicy

TO_WRITE = 0.5
"""Seconds that hanging ranks get to write their stacks."""
_NEVER = 1 << 60


class Line(Protocol):
    """The connection to one agent."""

    def say(self, message: Message) -> None:
        """Sends without blocking."""

    def close(self) -> None:
        """Closes the connection."""


@dataclass(slots=True)
class Participant:
    """One agent. `instance` changes when its container is restarted."""

    peer: rules.Peer
    instance: str
    line: Line | None = None
    behind: SlowestRank | None = None
    """Its slowest rank, as last reported on this connection."""
    silence: float = 0.0
    measured: wire.Telemetry | None = None
    recovered: wire.RankRecovery | None = None
    """The last time at which its ranks ran again."""


@dataclass(frozen=True, slots=True)
class Ears:
    """Callbacks for the results of a rendezvous."""

    forgives: Callable[[RankFailed], bool]
    """Tells whether ranks may restart after this failure."""
    restarted: Callable[[int, str, RankFailed | None], None]
    """Called when ranks restart in their pods, with generation, reason, and failure if there was one."""
    hangs: Callable[[int, str], None]
    """Called with the hanging rank (-1: unknown, detected by silence), and its position."""
    closes: Callable[[], None]
    """Called when the run is over, before agents are dismissed."""


class Rendezvous:
    """One rendezvous. `places`: pods by name with their ranks' position. `first`: first membership number."""

    def __init__(self, places: Mapping[str, int], first: int, ears: Ears, now: float, restart: RestartPolicy) -> None:
        self._places, self._ears = places, ears
        bounds = rules.RendezvousRules(len(places), len(places), max_restarts=_NEVER, join_timeout=math.inf)
        bounds = bounds._replace(
            immediate=1,
            backoff_base=restart.backoff_base / 1000,
            backoff_max=restart.backoff_max / 1000,
            healthy_after=restart.healthy_after / 1000,
        )
        self.crew = rules.RendezvousState(bounds, now, arrived=now, seen=first - 1)
        self.attendees: dict[str, Participant] = {}
        self._begun = False
        self._published: dict[str, Any] | None = None
        """The last published membership; None if an earlier leader published it."""
        self._kept = False
        """Whether running ranks continued with it."""
        self._failure: RankFailed | None = None
        self._accused = 0
        self._verdict: tuple[float, RankFailed] | None = None

    @property
    def measured(self) -> wire.Telemetry | None:
        """The last metrics of the first rank that reports any."""
        found = [each.measured for each in self.attendees.values() if each.measured is not None]
        current = [each for each in found if each.generation == self.crew.generation]
        return min(current, key=lambda each: each.rank, default=None)

    # --- connections ------------------------------------------------------------------------------------------

    def join(self, name: str, node: str, hello: Message, line: Line, now: float) -> None:
        """Adds an agent that connects, first or again. Raises ValueError, KeyError, TypeError for invalid input."""
        peer, generation = messages.peer(name, node, self._places[name], hello), messages.integer(hello["generation"])
        before = self.attendees.get(name)
        if before is not None and before.line is not None:
            before.line.close()
        self.attendees[name] = here = Participant(peer, str(hello["id"]), line)
        line.say({"type": "welcome"})
        if before is not None and before.instance == here.instance:
            here.measured = before.measured
            self._came_back(name, hello, now)
        elif generation and self._takes_up(name, generation, now):
            pass
        elif generation:
            line.say(_halt(generation, "its gang has gone on without it"))
        else:
            self._gather_anew(now)
            self.feed(rules.AgentJoined(peer), now)
        if isinstance(last := hello.get("last"), dict):
            self.hear(name, last, now)

    def hear(self, name: str, said: Message, now: float) -> None:
        """Handles a message. Raises ValueError, KeyError, TypeError for invalid input."""
        here = self.attendees[name]
        if said["type"] == "beat":
            here.silence, behind = messages.seconds(said["silence"]), messages.behind(said["behind"])
            here.behind = (
                behind if said["generation"] == self.crew.generation else None
            )  # a report of an old generation is ignored
            here.measured = messages.measured(said.get("measured"))
            here.recovered = messages.recovered(said.get("recovered"))
        elif said["type"] == "port":
            here.peer = here.peer._replace(port=messages.port(said["port"]))
            self._know(here.peer)
        else:
            event = messages.event(name, said)
            if isinstance(event, RanksStopped) and name not in self._present():
                self.feed(rules.AgentJoined(here.peer), now)
            else:
                self.feed(event, now)

    def left(self, name: str, line: Line) -> None:
        """Handles the end of a connection."""
        here = self.attendees.get(name)
        if here is not None and here.line is line:
            here.line, here.behind = None, None

    def look(self, now: float) -> None:
        """Checks timeouts; to be called about once a second."""
        if self._verdict is not None and now >= self._verdict[0]:
            (_, failed), self._verdict = self._verdict, None
            self.feed(failed, now)
        due = rules.deadline(self.crew)
        if due is not None and now >= due:
            self.feed(rules.TimePassed(), now)
        self._look_whether_it_hangs(now)

    def close(self) -> None:
        """Ends the rendezvous, because the gang ended or another leader took over; agents continue."""
        for each in self.attendees.values():
            if each.line is not None:
                each.line.close()
        self.attendees.clear()

    def missing(self) -> list[str]:
        """Returns members of a running generation that have not reported success and are not connected."""
        if self.crew.phase is not rules.RendezvousPhase.RUNNING:
            return []
        here = {name for name, each in self.attendees.items() if each.line is not None}
        return [name for name in self._places if name in self.crew.members - self.crew.done - here]

    # --- decisions -------------------------------------------------------------------------------------------

    def feed(self, event: rules.Event, now: float) -> None:
        """Passes an event to the rules and carries out the decision."""
        crew = self.crew
        if isinstance(event, RankFailed) and self._counts(event):
            self._failure = event
            if not self._ears.forgives(event):
                self.crew = crew._replace(verdict=rules.EndRun(event.code, event.why))
        self.crew, actions = rules.step(self.crew, event, now)
        for action in actions:
            self._do(action)

    def _counts(self, event: RankFailed) -> bool:
        crew = self.crew
        return (
            crew.phase is rules.RendezvousPhase.RUNNING and event.generation == crew.generation and crew.verdict is None
        )

    def _do(self, action: rules.Action) -> None:
        if isinstance(action, rules.StartGeneration):
            self._publish(action)
        elif isinstance(action, rules.StopRanks):
            self._say_to_all({"type": "halt", **action._asdict()})
        else:
            self._ears.closes()
            self._say_to_all({"type": "close", "code": action.code, "why": action.why})

    def _publish(self, decided: rules.StartGeneration) -> None:
        self._published = json.loads(
            wire.encode(self._membership(decided.members))
        )  # encoded once: it names all members
        self._kept = decided.keep
        for place, peer in enumerate(decided.members):
            self._start(peer.id, place, decided.why, keep=decided.keep)
        failure, self._failure = self._failure, None
        if self._begun:
            why = failure.why if failure is not None else "an agent has come anew"
            self._ears.restarted(decided.generation, why, failure)
        self._begun = True

    def _membership(self, members: tuple[rules.Peer, ...]) -> wire.Membership:
        told = tuple(wire.MemberNode(peer.node, peer.address, peer.ranks) for peer in members)
        first = members[0]
        return wire.Membership(
            self.crew.generation, told, first.port, address=first.address, restarts=self.crew.restarts
        )

    def _start(self, name: str, place: int, why: str, *, keep: bool) -> None:
        self._say(
            name, {"type": "start", "membership": {**(self._published or {}), "me": place}, "keep": keep, "why": why}
        )

    # --- members ---------------------------------------------------------------------------------------------

    def _present(self) -> frozenset[str]:
        return frozenset(peer.id for peer in self.crew.present)

    def _know(self, peer: rules.Peer) -> None:
        """Updates what is known of a connected agent."""
        present = tuple(peer if each.id == peer.id else each for each in self.crew.present)
        self.crew = self.crew._replace(present=present)

    def _takes_up(self, name: str, generation: int, now: float) -> bool:
        """Tells whether ranks that run under an earlier leader may continue."""
        crew, peer = self.crew, self.attendees[name].peer
        if not self._begun and crew.phase is rules.RendezvousPhase.GATHERING and not crew.present:
            members = frozenset(self._places)
            running = rules.RendezvousPhase.RUNNING
            crew = crew._replace(phase=running, since=now, generation=generation, seen=generation, members=members)
            self._begun = True
        if crew.phase is not rules.RendezvousPhase.RUNNING or crew.generation != generation:
            return False
        others = tuple(each for each in crew.present if each.id != name)
        self.crew = crew._replace(present=rules.sort_by_place((*others, peer)))
        return True

    def _gather_anew(self, now: float) -> None:
        """Restarts the rendezvous of a run that was over: kubelets may restart containers that failed."""
        crew = self.crew
        if crew.phase is rules.RendezvousPhase.CLOSED:
            self.crew = rules.RendezvousState(crew.rules, now, arrived=now, seen=crew.generation)

    def _came_back(self, name: str, hello: Message, now: float) -> None:
        """Repeats the last messages to an agent that has connected again."""
        crew, generation = self.crew, hello["generation"]
        self._know(self.attendees[name].peer)
        if crew.phase is rules.RendezvousPhase.CLOSED and crew.verdict is not None:
            self._say(name, {"type": "close", "code": crew.verdict.code, "why": crew.verdict.why})
        elif (
            crew.phase is rules.RendezvousPhase.RUNNING
            and hello["seen"] < crew.generation
            and self._published is not None
        ):
            place = [peer.id for peer in crew.present].index(name)
            self._start(name, place, "it was away", keep=self._kept)
        elif crew.phase is rules.RendezvousPhase.STOPPING and generation:
            self._say(name, _halt(generation, "its gang is being stopped"))
        elif crew.phase is rules.RendezvousPhase.STOPPING:
            self.feed(RanksStopped(name, crew.generation), now)

    # --- messages --------------------------------------------------------------------------------------------

    def _say(self, name: str, message: Message) -> None:
        here = self.attendees.get(name)
        if here is not None and here.line is not None:
            here.line.say(message)

    def _say_to_all(self, message: Message) -> None:
        for name in list(self.attendees):
            self._say(name, message)

    # --- hangs --------------------------------------------------------------------------------------------

    def _look_whether_it_hangs(self, now: float) -> None:
        crew = self.crew
        here = self.attendees.values()
        heard = [each.behind for each in here if each.behind is not None]
        asked = crew.phase is rules.RendezvousPhase.RUNNING and self._accused != crew.generation
        if not asked or len(heard) < len(self._places):  # the hanging rank may be one of a silent agent
            return
        verdict = detect_hang(heard, HangLimits(silence=max(each.silence for each in here)))
        if verdict is not None:
            rank, why = verdict
            self._accused = crew.generation
            self._say_to_all({"type": "interrogate", "rank": rank})
            self._ears.hangs(rank, why)
            culprit = self.owner(rank) or next(iter(self._places))
            self._verdict = (
                now + TO_WRITE,
                RankFailed(culprit, crew.generation, 1, f"hang: {why}", hangs=True),
            )

    def owner(self, rank: int) -> str:
        """Returns the pod of a rank; "" if unknown."""
        end = 0
        for peer in self.crew.present:
            end += peer.ranks
            if 0 <= rank < end:
                return peer.id
        return ""


def _halt(generation: int, why: str) -> Message:
    return {"type": "halt", **rules.StopRanks(generation, why)._asdict()}
