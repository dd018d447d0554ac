"""The agents of one start of a gang, led from outside of them: the rules are those of an agent that leads.

Agents are known by their pods. A connection that ends says nothing: the pod's end is heard elsewhere, and an agent that
lives calls again. Whoever leads may be new to agents that run: what they say of themselves is taken up.
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
"""Seconds for ranks that hang to write down where they are."""
_NEVER = 1 << 60


class Line(Protocol):
    """To one agent."""

    def say(self, message: Message) -> None:
        """Never waits."""

    def close(self) -> None:
        """Hang up."""


@dataclass(slots=True)
class Participant:
    """One agent. `instance` is another one when its container was started again."""

    peer: rules.Peer
    instance: str
    line: Line | None = None
    behind: SlowestRank | None = None
    """Of its ranks, as it said last on this connection."""
    silence: float = 0.0
    measured: wire.Telemetry | None = None
    recovered: wire.RankRecovery | None = None
    """When its ranks ran again, the last time."""


@dataclass(frozen=True, slots=True)
class Ears:
    """Who hears what comes of it, and who is asked."""

    forgives: Callable[[RankFailed], bool]
    """Whether ranks may start again after this."""
    restarted: Callable[[int, str, RankFailed | None], None]
    """Ranks start again in their pods: the generation, why, and the failure if it was one."""
    hangs: Callable[[int, str], None]
    """The rank (-1: only silence speaks), and where it is."""
    closes: Callable[[], None]
    """The run is over: agents are about to be told so."""


class Rendezvous:
    """`places`: the pods by name, and where their ranks stand. `first`: the number of the first membership."""

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
        """As it was told last; None if somebody who led before told it."""
        self._kept = False
        """Whether ranks that ran went on with it."""
        self._failure: RankFailed | None = None
        self._accused = 0
        self._verdict: tuple[float, RankFailed] | None = None

    @property
    def measured(self) -> wire.Telemetry | None:
        """What the first rank that measures anything said last."""
        found = [each.measured for each in self.attendees.values() if each.measured is not None]
        current = [each for each in found if each.generation == self.crew.generation]
        return min(current, key=lambda each: each.rank, default=None)

    # --- agents come, speak and go ------------------------------------------------------------------------

    def join(self, name: str, node: str, hello: Message, line: Line, now: float) -> None:
        """An agent calls, for the first time or again. Raises ValueError, KeyError, TypeError if it is none."""
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
        """An agent speaks. Raises ValueError, KeyError, TypeError if it makes no sense."""
        here = self.attendees[name]
        if said["type"] == "beat":
            here.silence, behind = messages.seconds(said["silence"]), messages.behind(said["behind"])
            here.behind = behind if said["generation"] == self.crew.generation else None  # an old one accuses nobody
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
        """A connection has ended."""
        here = self.attendees.get(name)
        if here is not None and here.line is line:
            here.line, here.behind = None, None

    def look(self, now: float) -> None:
        """To be called about once a second."""
        if self._verdict is not None and now >= self._verdict[0]:
            (_, failed), self._verdict = self._verdict, None
            self.feed(failed, now)
        due = rules.deadline(self.crew)
        if due is not None and now >= due:
            self.feed(rules.TimePassed(), now)
        self._look_whether_it_hangs(now)

    def close(self) -> None:
        """The gang is over, or somebody else leads: agents are left as they are."""
        for each in self.attendees.values():
            if each.line is not None:
                each.line.close()
        self.attendees.clear()

    def missing(self) -> list[str]:
        """Members of a crew that runs who have not said that they are done, and cannot say it just now."""
        if self.crew.phase is not rules.RendezvousPhase.RUNNING:
            return []
        here = {name for name, each in self.attendees.items() if each.line is not None}
        return [name for name in self._places if name in self.crew.members - self.crew.done - here]

    # --- deciding -----------------------------------------------------------------------------------------

    def feed(self, event: rules.Event, now: float) -> None:
        """Something has happened."""
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
        self._published = json.loads(wire.encode(self._membership(decided.members)))  # once: it names all of them
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

    # --- who is here --------------------------------------------------------------------------------------

    def _present(self) -> frozenset[str]:
        return frozenset(peer.id for peer in self.crew.present)

    def _know(self, peer: rules.Peer) -> None:
        """What is new of somebody who is here."""
        present = tuple(peer if each.id == peer.id else each for each in self.crew.present)
        self.crew = self.crew._replace(present=present)

    def _takes_up(self, name: str, generation: int, now: float) -> bool:
        """Whether ranks that run under somebody who led before us may go on."""
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
        """A run that was over begins again: kubelets may start containers again that have failed."""
        crew = self.crew
        if crew.phase is rules.RendezvousPhase.CLOSED:
            self.crew = rules.RendezvousState(crew.rules, now, arrived=now, seen=crew.generation)

    def _came_back(self, name: str, hello: Message, now: float) -> None:
        """The same agent on another connection: it may have missed what it was told last."""
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

    # --- speaking -----------------------------------------------------------------------------------------

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
        if not asked or len(heard) < len(self._places):  # whoever is not heard may be the one
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
        """The pod whose rank it is; "" if none's."""
        end = 0
        for peer in self.crew.present:
            end += peer.ranks
            if 0 <= rank < end:
                return peer.id
        return ""


def _halt(generation: int, why: str) -> Message:
    return {"type": "halt", **rules.StopRanks(generation, why)._asdict()}
