"""Agents of several nodes: they meet at the endpoint, one leads, the others follow and know who leads after it.

The first that can listen at the endpoint leads. It gives everybody the roster: all agents in order, with addresses.
When the leader is lost, followers stop their ranks and call those before them in the roster; who finds none leads.
A leader that is not at the endpoint calls there every few seconds: whoever has come up there anew is told who leads.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from typing import Any, Callable

from windlass import wire
from windlass.agent import hang_detection, messages
from windlass.agent.event_loop import EventLoop
from windlass.agent.options import Options, RendezvousOptions
from windlass.agent.rank_events import NAMES, RankEvent, RanksStopped, message_of
from windlass.agent.ranks.node_ranks import NodeRanks
from windlass.agent.rendezvous import sockets, state_machine
from windlass.agent.rendezvous.connection import Connection, Message
from windlass.agent.rendezvous.leader import Leader, interrogate, start_ranks
from windlass.agent.rendezvous.leader_search import Endpoint, LeaderSearch

_CALL_ENDPOINT = 2.0
_GOODBYE = 2.0
"""Seconds for followers to hear that the run is over."""


class MultiNode:
    """`close` is called once, with the run's end. `rules` are the crew's, if this agent comes to lead it."""

    def __init__(
        self,
        loop: EventLoop,
        options: Options,
        meeting: RendezvousOptions,
        rules: state_machine.Rules,
        me: state_machine.Peer,
        local: NodeRanks,
        close: Callable[[state_machine.EndRun], None],
    ) -> None:
        self._loop, self._options, self._meeting, self._rules, self._me = loop, options, meeting, rules, me
        self._local, self._close = local, close
        self._lead: Leader | None = None
        self._leader: Connection | None = None
        self._seek: LeaderSearch | None = None
        self._guests: dict[str, Connection] = {}
        self._behind: dict[str, tuple[int, hang_detection.SlowestRank]] = {}
        self._roster: tuple[state_machine.Peer, ...] = ()
        self._restarts = 0
        self._at_endpoint: socket.socket | None = None
        self._call: sockets.ConnectAttempt | None = None
        self._closing: state_machine.EndRun | None = None
        self._wants: Callable[[], None] | None = None
        self._near = "" if options.local_addr else sockets.choose_interface(meeting.host)
        self._server = sockets.listen(self._near)
        self._me = me._replace(port=self._server.getsockname()[1])
        loop.watch(self._server, lambda: self._welcome(self._server))
        loop.after(meeting.interval, self._beat)
        loop.after(_CALL_ENDPOINT, self._look_at_endpoint)

    def begin(self) -> None:
        """Meet the others."""
        self._take_endpoint()
        if self._at_endpoint is not None:
            self._take_lead(frozenset())
        else:
            self._look_for([Endpoint(self._meeting.host, self._meeting.port)])

    # --- as the leader's voice (lead.Others) -----------------------------------------------------------

    def tell(self, who: str, message: Message) -> None:
        """One follower."""
        if who in self._guests:
            self._guests[who].say(message)

    def tell_all(self, message: Message) -> None:
        """Every follower."""
        for line in list(self._guests.values()):
            line.say(message)

    def behind(self) -> list[hang_detection.SlowestRank]:
        """What followers said last of the generation that runs; of an older one it accuses nobody."""
        current = self._lead.crew.generation if self._lead is not None else 0
        said = [each for who, each in self._behind.items() if who in self._guests]
        return [behind for generation, behind in said if generation == current]

    # --- from this node's ranks ----------------------------------------------------------------------------

    def hear(self, event: RankEvent) -> None:
        """How the ranks of this node do."""
        if isinstance(event, RanksStopped) and self._wants is not None:
            what, self._wants = self._wants, None
            what()
        elif self._lead is not None:
            self._lead.hear(event)
        elif self._leader is not None:
            self._leader.say(message_of(event._replace(id=self._me.id)))

    def leave(self) -> None:
        """Hang up on everybody."""
        for line in [*self._guests.values(), *([self._leader] if self._leader else [])]:
            line.close()

    # --- leading -------------------------------------------------------------------------------------------

    def _take_endpoint(self) -> None:
        if self._at_endpoint is not None or self._meeting.is_host is False:
            return
        if self._meeting.is_host:
            with contextlib.suppress(OSError):
                self._at_endpoint = sockets.listen(self._near, self._meeting.port)
        else:
            self._at_endpoint = sockets.listen_if_local(self._meeting.host, self._meeting.port)
        if self._at_endpoint is not None:
            listener = self._at_endpoint
            self._loop.watch(listener, lambda: self._welcome(listener))

    def _take_lead(self, expected: frozenset[str]) -> None:
        self._settled()
        self._take_endpoint()
        if not self._me.address:
            self._me = self._me._replace(address=_address_of(self._meeting.host))
        begun = state_machine.Rendezvous(
            self._rules,
            time.monotonic(),
            arrived=time.monotonic(),
            expected=expected,
            seen=self._me.generation,
            restarts=self._restarts,
        )
        self._lead = Leader(self._loop, begun, self._me, self._local, self, self._options.limits, self._over)

    def _over(self, verdict: state_machine.EndRun) -> None:
        """The run has ended: everybody hears it before this agent goes."""
        self._closing = verdict
        self.tell_all({"say": "close", "code": verdict.code, "why": verdict.why})
        if not self._guests:
            self._close(verdict)
        else:
            self._loop.after(_GOODBYE, lambda: self._close(verdict))

    def _welcome(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            link, _ = listener.accept()
            Connection(self._loop, link, self._hear_guest, self._guest_left)

    def _hear_guest(self, line: Connection, said: Message) -> None:
        try:
            if said["say"] == "hello":
                self._hello(line, said)
            elif said["say"] == "lead":
                self._another_leads(line, said)
            else:
                self._hear_follower(line, said)
        except (KeyError, TypeError, ValueError):  # not what an agent says
            line.lose()

    def _hello(self, line: Connection, said: Message) -> None:
        peer = state_machine.Peer(**said["peer"])
        if said["run"] != self._meeting.id:
            line.say({"say": "refused", "why": f"here is run {self._meeting.id}, not {said['run']} (--rdzv-id)"})
        elif self._lead is None or self._closing is not None or self._place_is_taken(peer):
            line.say(self._elsewhere())
        else:
            peer = peer if peer.address else peer._replace(address=line.there)
            before = self._guests.pop(peer.id, None)
            self._guests[peer.id] = line
            if before is not None:
                before.close()
            self._lead.feed(state_machine.AgentJoined(peer))
            self._pass_roster()

    def _place_is_taken(self, peer: state_machine.Peer) -> bool:
        """Two of one --node-rank: the first may be about to be found lost."""
        present = self._lead.crew.present if self._lead is not None else ()
        return peer.place >= 0 and any(each.place == peer.place and each.id != peer.id for each in present)

    def _elsewhere(self) -> Message:
        if self._leader is None or not self._roster:
            return {"say": "wait"}
        return {"say": "elsewhere", "host": self._roster[0].address, "port": self._roster[0].port}

    def _hear_follower(self, line: Connection, said: Message) -> None:
        who = self._name(line)
        if who is None or self._lead is None:
            return
        if said["say"] == "beat":
            self._behind[who] = said["generation"], hang_detection.SlowestRank(*said["behind"])
            return
        event = NAMES[said.pop("say")]
        self._lead.feed(event(**{**said, "id": who}))

    def _guest_left(self, line: Connection) -> None:
        who = self._name(line)
        if who is None:
            return
        del self._guests[who]
        if self._closing is not None:
            if not self._guests:
                self._close(self._closing)
        elif self._lead is not None:
            self._lead.feed(state_machine.AgentLost(who))
            self._pass_roster()

    def _name(self, line: Connection) -> str | None:
        return next((who for who, each in self._guests.items() if each is line), None)

    def _pass_roster(self) -> None:
        if self._lead is not None:
            led = self._lead.crew
            others = [peer for peer in led.present if peer.id != self._me.id]
            self._roster = (self._me, *others)
            peers = [peer._asdict() for peer in self._roster]
            self.tell_all({"say": "roster", "peers": peers, "restarts": led.restarts})

    # --- several leaders -----------------------------------------------------------------------------------

    def _look_at_endpoint(self) -> None:
        self._loop.after(_CALL_ENDPOINT, self._look_at_endpoint)
        if self._lead is not None and self._closing is None and self._call is None:
            self._take_endpoint()
            if self._at_endpoint is None:
                self._call = sockets.ConnectAttempt(
                    self._loop, self._meeting.host, self._meeting.port, self._endpoint_answered
                )

    def _endpoint_answered(self, link: socket.socket | None) -> None:
        self._call = None
        if link is None or self._lead is None:
            return
        line = Connection(self._loop, link, self._hear_other_leader, lambda _line: None)
        address = self._me.address or line.here
        seen = self._lead.crew.generation
        line.say({
            "say": "lead", "run": self._meeting.id, "generation": seen, "id": self._me.id,
            "host": address, "port": self._me.port,
        })  # fmt: skip
        self._loop.after(_CALL_ENDPOINT, line.close)

    def _another_leads(self, line: Connection, said: Message) -> None:
        """Of two leaders the one with the newer generation stays."""
        if said["run"] != self._meeting.id or said["id"] == self._me.id:
            return
        if self._lead is None:
            line.say(self._elsewhere())
        elif (self._lead.crew.generation, self._me.id) < (said["generation"], said["id"]):
            self._yield_to(Endpoint(said["host"], said["port"]))
        else:
            line.say({"say": "elsewhere", "host": self._me.address, "port": self._me.port})

    def _hear_other_leader(self, line: Connection, said: Message) -> None:
        line.close()
        if said["say"] == "elsewhere" and said["port"] != self._me.port and self._lead is not None:
            self._yield_to(Endpoint(str(said["host"]), int(said["port"])))

    def _yield_to(self, target: Endpoint) -> None:
        messages.print_message(f"another agent leads this run at {target.host}:{target.port}: following it")
        if self._lead is not None:
            self._me = self._me._replace(generation=self._lead.crew.generation)
        self.tell_all({"say": "elsewhere", "host": target.host, "port": target.port})
        for line in self._guests.values():
            line.close()
        self._guests.clear()
        self._stop_then("another agent leads", lambda: self._look_for([target]))

    # --- following -------------------------------------------------------------------------------------------

    def _look_for(self, targets: list[Endpoint]) -> None:
        self._seek = LeaderSearch(
            self._loop, targets, self._meeting.join_timeout, self._ask, self._nobody, self._give_up
        )

    def _give_up(self) -> None:
        where, waited = f"{self._meeting.host}:{self._meeting.port}", self._meeting.join_timeout
        self._close(
            state_machine.EndRun(1, f"nobody leads this run at {where} after {waited:.0f} s: is its agent there?")
        )

    def _ask(self, link: socket.socket | None) -> None:
        """Somebody answers at the place where the leader may be; or it is this agent's turn to lead."""
        if link is None:
            lost = self._roster[0].id if self._roster else ""
            self._take_lead(frozenset(peer.id for peer in self._roster) - {lost})
            return
        line = Connection(self._loop, link, self._hear_leader, self._leader_lost)
        if not self._options.local_addr:
            self._me = self._me._replace(address=line.here)
        self._leader = line
        line.say({"say": "hello", "run": self._meeting.id, "peer": self._me._asdict()})

    def _nobody(self) -> None:
        """Everybody was called in vain once: at the start the endpoint may be ours by now."""
        if not self._roster:
            self._take_endpoint()
            if self._at_endpoint is not None:
                self._take_lead(frozenset())

    def _hear_leader(self, line: Connection, said: Message) -> None:
        try:
            self._obey(line, said)
        except (KeyError, TypeError, ValueError):
            line.lose()

    def _obey(self, line: Connection, said: Message) -> None:
        what = said["say"]
        if what == "roster":
            self._roster = tuple(state_machine.Peer(**peer) for peer in said["peers"])
            self._restarts = said["restarts"]
            self._settled()
        elif what == "start":
            membership = wire.decode(json.dumps(said["membership"]).encode())
            assert isinstance(membership, wire.Membership)  # noqa: S101 - what is sent with start
            self._me = self._me._replace(generation=membership.generation)
            start_ranks(self._local, membership, None, keep=said["keep"], why=said["why"])
        elif what == "halt":
            self._local.halt(said["generation"], said["why"], planned=said["planned"])
        elif what == "interrogate":
            interrogate(self._loop, self._local, said["rank"])
        elif what == "close":
            line.close()
            self._close(state_machine.EndRun(said["code"], said["why"]))
        elif what == "refused":
            line.close()
            self._close(state_machine.EndRun(1, said["why"]))
        elif what in {"wait", "elsewhere"}:
            self._turned_away(line, said)

    def _settled(self) -> None:
        if self._seek is not None:
            self._seek.cancel()
            self._seek = None

    def _turned_away(self, line: Connection, said: Message) -> None:
        line.close()
        self._leader = None
        target = Endpoint(str(said["host"]), int(said["port"])) if said["say"] == "elsewhere" else None
        if self._seek is not None:
            self._seek.turned_away(target)
        elif target is not None:  # a leader that yields to another one
            self._stop_then("another agent leads", lambda: self._look_for([target]))

    def _leader_lost(self, _line: Connection) -> None:
        self._leader = None
        if self._seek is not None:
            self._seek.turned_away(None)
            return
        before_me = []
        for peer in self._roster:
            if peer.id == self._me.id:
                break
            before_me.append(Endpoint(peer.address, peer.port))
        messages.print_message("the leading agent is lost: looking for who leads now")
        self._stop_then("the leading agent is lost", lambda: self._look_for([*before_me, Endpoint.mine()]))

    def _stop_then(self, why: str, what: Callable[[], None]) -> None:
        """Only an agent whose ranks are gone may join others."""
        if self._lead is not None:
            self._lead.resign()
            self._lead = None
        self._wants = what
        self._local.halt(self._local.generation, why)

    # --- heartbeats --------------------------------------------------------------------------------------------

    def _beat(self) -> None:
        self._loop.after(self._meeting.interval, self._beat)
        limit = time.monotonic() - self._meeting.interval * self._meeting.attempts
        behind = list(self._local.behind(time.monotonic()))
        mine: dict[str, Any] = {"say": "beat", "generation": self._local.generation, "behind": behind}
        for line in [*self._guests.values(), *([self._leader] if self._leader else [])]:
            line.say(mine)
            if line.heard < limit:
                line.lose()


def _address_of(host: str) -> str:
    """An address by which others reach this machine, that is called so in the endpoint."""
    with contextlib.suppress(OSError):
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    return host
