"""The rendezvous of the agents of one run, led by the operator by the rules of an agent that leads.

Agents are identified by their pods. The end of a connection has no consequence: the end of a pod is observed by
`gang_agents`, and a running agent connects again. A new leader adopts the generation that connected agents report.
Decisions come from `windlass.agent.rendezvous.state_machine` (with `generation_state`), messages go through
`connected_agents`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from windlass import wire
from windlass.agent.rank_events import RankFailed, RanksStopped
from windlass.agent.rendezvous import state_machine as rules
from windlass.agent.rendezvous.state_machine import RendezvousPhase
from windlass.backends.kubernetes.agents import generation_state, messages
from windlass.backends.kubernetes.agents.connected_agents import ConnectedAgents, MessageChannel, PodAgent
from windlass.backends.kubernetes.agents.hang_monitor import HangMonitor
from windlass.backends.kubernetes.agents.messages import AgentPod, Message
from windlass.core.model.job import RestartPolicy


@dataclass(frozen=True, slots=True)
class RendezvousCallbacks:
    """Callbacks for the decision about restarts, and for the results of a rendezvous."""

    may_restart: Callable[[RankFailed], bool]
    """Tells whether ranks may restart after this failure."""
    restarted: Callable[[int, str, RankFailed | None], None]
    """Called when ranks restart in their pods, with generation, reason, and failure if there was one."""
    hang_detected: Callable[[int, str], None]
    """Called with the hanging rank (-1: unknown, detected by silence), and its position."""
    closing: Callable[[], None]
    """Called when the run is over, before agents are dismissed."""


class Rendezvous:
    """One rendezvous. `members`: pods by name with their ranks' position. `first`: first generation number.

    `secret`: the secret of the gang, which agents pass on to their ranks.
    """

    def __init__(
        self,
        members: Mapping[str, int],
        first: int,
        callbacks: RendezvousCallbacks,
        now: float,
        restart: RestartPolicy,
        secret: str,
    ) -> None:
        self._members, self._callbacks, self._secret = members, callbacks, secret
        rules_of_gang = generation_state.rules_for(len(members), restart)
        self.state = rules.RendezvousState(rules_of_gang, now, arrived=now, seen=first - 1)
        self.agents = ConnectedAgents()
        self._hangs = HangMonitor()
        self._begun = False
        self._published: dict[str, Any] | None = None
        """The last published membership; None if an earlier leader published it."""
        self._keeps_ranks = False
        """Whether running ranks continued with it."""
        self._failure: RankFailed | None = None
        """The failure that the next generation follows."""

    @property
    def telemetry(self) -> wire.Telemetry | None:
        """The last metrics of the first rank that reports any."""
        return self.agents.telemetry(self.state.generation)

    # --- connections ------------------------------------------------------------------------------------------

    def join(self, pod: AgentPod, hello: Message, channel: MessageChannel, now: float) -> None:
        """Adds an agent that connects, first or again. Raises ValueError, KeyError, TypeError for invalid input."""
        name, peer = pod.name, messages.parse_peer(pod, self._members[pod.name], hello)
        generation = messages.parse_integer(hello["generation"])
        if self.agents.connect(name, PodAgent(peer, str(hello["id"]), channel)):
            self._resume(name, hello, now)
        elif generation and self._adopt(peer, generation, now):
            pass
        elif generation:
            self.agents.send(name, _halt(generation, "its gang has gone on without it"))
        else:
            self.state = generation_state.begin_again(self.state, now)
            self.handle(rules.AgentJoined(peer), now)
        if isinstance(last := hello.get("last"), dict):
            self.receive(name, last, now)

    def receive(self, name: str, message: Message, now: float) -> None:
        """Handles a message. Raises ValueError, KeyError, TypeError for invalid input."""
        agent = self.agents[name]
        if message["type"] == "beat":
            agent.record_heartbeat(message, self.state.generation)
        elif message["type"] == "port":
            agent.peer = agent.peer._replace(port=messages.parse_port(message["port"]))
            self.state = generation_state.with_known_peer(self.state, agent.peer)
        else:
            event = messages.parse_event(name, message)
            if isinstance(event, RanksStopped) and not generation_state.is_present(self.state, name):
                self.handle(rules.AgentJoined(agent.peer), now)
            else:
                self.handle(event, now)

    def check_timeouts(self, now: float) -> None:
        """Carries out what is due; to be called about once a second."""
        if (failure := self._hangs.take_due_failure(now)) is not None:
            self.handle(failure, now)
        due = rules.deadline(self.state)
        if due is not None and now >= due:
            self.handle(rules.TimePassed(), now)
        self._detect_hang(now)

    def close(self) -> None:
        """Ends the rendezvous, because the gang ended or another leader took over; agents continue."""
        self.agents.close()

    def absent_members(self) -> list[str]:
        """Returns members of a running generation that have not reported success and are not connected."""
        if self.state.phase is not RendezvousPhase.RUNNING:
            return []
        absent = self.state.members - self.state.succeeded - self.agents.connected()
        return [name for name in self._members if name in absent]

    # --- decisions -------------------------------------------------------------------------------------------

    def handle(self, event: rules.Event, now: float) -> None:
        """Passes an event to the rules and carries out the decision."""
        if isinstance(event, RankFailed) and generation_state.ends_generation(self.state, event):
            self._failure = event
            if not self._callbacks.may_restart(event):
                self.state = self.state._replace(ending=rules.EndRun(event.code, event.reason))
        self.state, actions = rules.step(self.state, event, now)
        for action in actions:
            if isinstance(action, rules.StartGeneration):
                self._publish(action)
            elif isinstance(action, rules.StopRanks):
                self.agents.send_to_all({"type": "halt", **action._asdict()})
            else:
                self._callbacks.closing()
                self.agents.send_to_all(_close(action))

    def _publish(self, start: rules.StartGeneration) -> None:
        membership = generation_state.membership(self.state, start.members)
        self._published = json.loads(wire.encode(membership))  # encoded once: it names all members
        self._keeps_ranks = start.keep
        for place, peer in enumerate(start.members):
            self._send_start(peer.id, place, start.reason)
        failure, self._failure = self._failure, None
        if self._begun:
            reason = failure.reason if failure is not None else "an agent has come anew"
            self._callbacks.restarted(start.generation, reason, failure)
        self._begun = True

    def _send_start(self, name: str, place: int, reason: str) -> None:
        membership = {**(self._published or {}), "me": place}
        order = {"type": "start", "membership": membership, "keep": self._keeps_ranks, "reason": reason}
        self.agents.send(name, {**order, "secret": self._secret})

    def _adopt(self, peer: rules.Peer, generation: int, now: float) -> bool:
        """Adds an agent whose ranks run under an earlier leader. Returns False if they may not continue."""
        state = self.state
        if not self._begun and state.phase is RendezvousPhase.GATHERING and not state.present:
            state = generation_state.take_over(state, generation, self._members, now)
            self._begun = True
        if state.phase is not RendezvousPhase.RUNNING or state.generation != generation:
            return False
        self.state = generation_state.with_peer(state, peer)
        return True

    def _resume(self, name: str, hello: Message, now: float) -> None:
        """Repeats the last messages to an agent that has connected again."""
        self.state = state = generation_state.with_known_peer(self.state, self.agents[name].peer)
        if state.phase is RendezvousPhase.CLOSED and state.ending is not None:
            self.agents.send(name, _close(state.ending))
        elif (
            state.phase is RendezvousPhase.RUNNING and hello["seen"] < state.generation and self._published is not None
        ):
            place = [peer.id for peer in state.present].index(name)
            self._send_start(name, place, "it was away")
        elif state.phase is RendezvousPhase.STOPPING and hello["generation"]:
            self.agents.send(name, _halt(hello["generation"], "its gang is being stopped"))
        elif state.phase is RendezvousPhase.STOPPING:
            self.handle(RanksStopped(name, state.generation), now)

    def _detect_hang(self, now: float) -> None:
        state = self.state
        if state.phase is not RendezvousPhase.RUNNING:
            return
        found = self._hangs.detect(list(self.agents), len(self._members), state.generation)
        if found is not None:
            rank, reason = found
            self.agents.send_to_all({"type": "dump_stacks", "rank": rank})
            self._callbacks.hang_detected(rank, reason)
            pod = generation_state.pod_of_rank(state, rank) or next(iter(self._members))
            self._hangs.schedule_failure(pod, state.generation, reason, now)


def _halt(generation: int, reason: str) -> Message:
    return {"type": "halt", **rules.StopRanks(generation, reason)._asdict()}


def _close(end: rules.EndRun) -> Message:
    return {"type": "close", "code": end.code, "reason": end.reason}
