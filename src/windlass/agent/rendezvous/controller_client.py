"""Receives memberships from a controller over TCP, which leads the agents as a leading agent would, but has no ranks.

The agent sends it the messages of a follower to its leader, and a little more (docs/design/kubernetes.md). The
controller may be away at any time: ranks go on, the agent reconnects with exponential backoff, and repeats its last
report. It gives up after a while only when it cannot go on without the controller.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import time
import uuid
from collections.abc import Mapping
from typing import Callable

from windlass import wire
from windlass.agent import messages
from windlass.agent.event_loop import EventLoop
from windlass.agent.options import CommandLineError, Options
from windlass.agent.rank_events import RankEvent, RankFailed, RanksStopped, RanksSucceeded, message_of
from windlass.agent.ranks.node_ranks import NodeRanks
from windlass.agent.rendezvous import sockets
from windlass.agent.rendezvous.connection import AgentConnection, Message
from windlass.agent.rendezvous.leader import dump_stacks
from windlass.agent.rendezvous.state_machine import EndRun
from windlass.agent.rendezvous.tls_link import TlsHandshake, TlsLink, trust_only

_BEAT_INTERVAL_S = 2.0
_BEAT_ATTEMPTS = 5
"""Heartbeats in a row without an answer after which the connection is taken for dead."""
_RECONNECT_MIN_S, _RECONNECT_MAX_S = 0.2, 5.0
"""Delay between two attempts to connect; it doubles."""
_AWAY_LIMIT_S = 120.0
"""Wait of failed ranks, or of ranks that were never started, for a controller that is away."""
_AWAY_LIMIT_AFTER_SUCCESS_S = 5.0
"""The same for ranks that have all succeeded: they need no answer."""


class ControllerClient:
    """The agent's side of the connection to the controller: reports events, carries out orders, reconnects.

    Calls `close` once, at the end of the run. Raises CommandLineError if `address` is not HOST:PORT, or if the variable
    `WINDLASS_CONTROLLER_AUTHORITY` has no certificate.
    """

    def __init__(
        self,
        loop: EventLoop,
        options: Options,
        address: str,
        count: int,
        ranks: NodeRanks,
        close: Callable[[EndRun], None],
    ) -> None:
        self._loop, self._options, self._ranks, self._close = loop, options, ranks, close
        self._host, _, port = address.rpartition(":")
        if not self._host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise CommandLineError(f"{wire.CONTROLLER}={address}: HOST:PORT is expected")
        self._port, self._tls = int(port), _read_authority(address)
        self._identity = {"name": os.environ.get(wire.AGENT_NAME, ""), "id": uuid.uuid4().hex}
        self._count = count
        self._listener = sockets.listen()
        self._attempt: sockets.ConnectAttempt | TlsHandshake | None = None
        self._connection: AgentConnection | None = None
        self._welcome = False
        self._delay = _RECONNECT_MIN_S
        self._away_since = time.monotonic()
        self._refusal = ""
        """The reason why the last attempt to connect has failed, if something answered."""
        self._newest = 0
        """The newest generation that was started here."""
        self._last_report: Message | None = None
        """The last event of the ranks; the controller may not have received it."""
        self._outcome: EndRun | None = None
        """The end of this agent, unless the controller sends another one."""
        self._next: Message | None = None
        """An order to start, until the ranks of the generation before are stopped."""

    def begin(self) -> None:
        """Connects to the controller."""
        self._connect()
        self._beat()

    def on_rank_event(self, event: RankEvent) -> None:
        """Reports an event of this node's ranks."""
        if isinstance(event, RanksStopped) and self._next is not None:
            order, self._next = self._next, None
            self._start(order)
            return
        if isinstance(event, RanksSucceeded):
            self._outcome = EndRun(0, "all ranks of this node have succeeded")
        elif isinstance(event, RankFailed):
            self._outcome = EndRun(event.code, event.reason)
        self._last_report = message_of(event)
        self._send(self._last_report)

    def leave(self) -> None:
        """Closes the connection."""
        if self._connection is not None:
            self._connection.close()

    # --- the connection ----------------------------------------------------------------------------------

    def _connect(self) -> None:
        self._attempt = sockets.ConnectAttempt(self._loop, self._host, self._port, self._on_answer, timeout=3.0)

    def _on_answer(self, link: socket.socket | None) -> None:
        self._attempt, self._refusal = None, ""
        if link is None:
            self._connect_later()
        else:
            self._attempt = TlsHandshake(self._loop, link, self._tls, self._on_handshake)

    def _on_handshake(self, link: TlsLink | None, failure: str) -> None:
        self._attempt, self._refusal = None, failure
        if link is None:
            self._connect_later()
            return
        self._refusal = "it does not accept this pod: the events of the job have the reason"
        self._connection = AgentConnection(self._loop, link, self._receive, lambda _lost: self._connect_later())
        self._connection.send({
            "type": "hello",
            **self._identity,
            "token": _read_token(),
            "ranks": self._count,
            "port": self._listener.getsockname()[1],
            "generation": self._ranks.generation,
            "seen": self._newest,
            "last": self._last_report,
        })  # fmt: skip

    def _connect_later(self) -> None:
        if self._welcome:
            messages.print_message("the controller is away: ranks go on")
            self._away_since = time.monotonic()
        self._connection, self._welcome = None, False
        self._loop.after(self._delay, self._connect)
        self._delay = min(_RECONNECT_MAX_S, self._delay * 2)

    def _send(self, message: Message) -> None:
        if self._connection is not None and self._welcome:
            self._connection.send(message)

    def _beat(self) -> None:
        self._loop.after(_BEAT_INTERVAL_S, self._beat)
        now = time.monotonic()
        if self._connection is not None:
            self._connection.beat(self._beat_message(now) if self._welcome else None, _BEAT_ATTEMPTS)
        if not self._welcome:
            self._give_up_if_stuck(now - self._away_since)

    def _beat_message(self, now: float) -> Message:
        telemetry, recovery = self._ranks.messages.telemetry, self._ranks.restarts.last_recovery
        return {
            "type": "beat",
            "generation": self._ranks.generation,
            "behind": list(self._ranks.slowest_rank(now)),
            "silence": self._options.limits.silence,
            "measured": None if telemetry is None else telemetry._asdict(),
            "recovered": None if recovery is None else recovery._asdict(),
        }

    def _give_up_if_stuck(self, away: float) -> None:
        """Ends the run where ranks wait for a controller that has been away for too long (`away`: seconds)."""
        outcome = self._outcome
        if outcome is not None and away > (_AWAY_LIMIT_S if outcome.code else _AWAY_LIMIT_AFTER_SUCCESS_S):
            self._close(outcome)
        elif not self._newest and away > _AWAY_LIMIT_S:
            where = f"{self._host}:{self._port}"
            answer = f"{where} cannot be used" if self._refusal else f"nothing answers at {where}"
            cause = self._refusal or "is the operator there, may this pod reach it?"
            reason = f"{answer} after {away:.0f} s: {cause}"
            self._close(EndRun(wire.RankExitCode.RETRY, reason))

    # --- orders --------------------------------------------------------------------------------------------

    def _receive(self, connection: AgentConnection, message: Message) -> None:
        try:
            self._obey(message)
        except (KeyError, TypeError, ValueError):  # the sender is no controller
            connection.lose()

    def _obey(self, message: Message) -> None:
        kind = message["type"]
        if kind == "welcome":
            self._welcome, self._delay = True, _RECONNECT_MIN_S
        elif kind == "start":
            self._start(message)
        elif kind == "halt":
            self._ranks.stop(message["generation"], message["reason"], graceful=message["planned"])
        elif kind == "dump_stacks":
            dump_stacks(self._loop, self._ranks, message["rank"])
        elif kind in {"close", "refused"}:
            self._close(EndRun(message["code"], message["reason"]))

    def _start(self, order: Message) -> None:
        membership = wire.decode(json.dumps(order["membership"]).encode())
        assert isinstance(membership, wire.Membership)  # noqa: S101 - each order to start has one
        os.environ.setdefault(wire.GANG_SECRET, str(order["secret"]))
        if self._ranks.generation and not order["keep"]:  # the order to stop was lost
            self._next = order
            self._ranks.stop(self._ranks.generation, order["reason"])
            return
        self._newest, self._outcome, self._last_report = membership.generation, None, None
        listener = self._take_listener(membership)
        self._ranks.start(membership, listener, keep=order["keep"], reason=order["reason"])

    def _take_listener(self, membership: wire.Membership) -> socket.socket | None:
        """The socket of the store if it is on this node; reports the port of the next generation's."""
        if membership.me != 0:
            return None
        listener, self._listener = self._listener, sockets.listen()
        self._send({"type": "port", "port": self._listener.getsockname()[1]})
        return listener


def _read_authority(address: str) -> ssl.SSLContext:
    """A context for connections to the controller. Raises CommandLineError."""
    try:
        return trust_only(os.environ.get(wire.CONTROLLER_AUTHORITY, ""))
    except ValueError as error:
        raise CommandLineError(f"{wire.CONTROLLER}={address} requires the controller's certificate: {error}") from None


def _read_token() -> str:
    """The present token of this agent; "" if there is none: the controller refuses it, and the agent connects again."""
    path = os.environ.get(wire.AGENT_TOKEN_FILE, "")
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return ""


def write_termination_message(reason: str, environment: Mapping[str, str] = os.environ) -> None:
    """Writes the file that the kubelet reads as the container's termination message, if the variable names one."""
    path = environment.get(wire.TERMINATION_MESSAGE_PATH)
    if path:
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"{reason}\n")
        except OSError as error:
            messages.print_message(f"{path}: {error.strerror}")
