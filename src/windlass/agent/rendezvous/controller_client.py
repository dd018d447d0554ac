"""Memberships from a controller that is reached over TCP: it leads as a leading agent would, and has no ranks.

It is told what followers tell their leader, and a little more (docs/design/kubernetes.md). The controller may go away
at any time: ranks go on, the agent calls again and again, and says anew what it said last. Only an agent that cannot go
on without it gives up after a while.
"""

from __future__ import annotations

import json
import os
import socket
import time
import uuid
from typing import Any, Callable

from windlass import wire
from windlass.agent import messages
from windlass.agent.event_loop import EventLoop
from windlass.agent.options import OptionError, Options
from windlass.agent.rank_events import RankEvent, RankFailed, RanksStopped, RanksSucceeded, message_of
from windlass.agent.ranks.node_ranks import NodeRanks
from windlass.agent.rendezvous import sockets, state_machine
from windlass.agent.rendezvous.connection import Connection, Message
from windlass.agent.rendezvous.leader import interrogate, start_ranks

TCP = "tcp:"
_LOOK = 2.0
"""Seconds between two words about how the ranks do."""
_SILENT = 10.0
"""Seconds without a word after which a connection is taken for dead."""
_SOONEST, _LATEST = 0.2, 5.0
"""Seconds between two calls; they double."""
_PATIENCE = 120.0
"""Seconds for which ranks that have ended badly, or were never started, wait for a controller that is away."""
_ENDED_WELL = 5.0
"""The same for ranks that have ended well: nobody need tell them so."""


class ControllerClient:
    """`close` is called once, with the run's end. Raises Refused if `where` is no address."""

    def __init__(
        self,
        loop: EventLoop,
        options: Options,
        where: str,
        ranks: int,
        local: NodeRanks,
        close: Callable[[state_machine.EndRun], None],
    ) -> None:
        self._loop, self._options, self._local, self._close = loop, options, local, close
        self._host, _, port = where[len(TCP) :].rpartition(":")
        if not self._host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise OptionError(f"{wire.MEMBERSHIP}={where}: tcp:HOST:PORT")
        self._port = int(port)
        self._me = {"name": os.environ.get(wire.AGENT_NAME, ""), "token": os.environ.get(wire.AGENT_TOKEN, "")}
        self._me |= {"id": uuid.uuid4().hex, "node": os.environ.get(wire.NODE, "")}
        self._ranks = ranks
        self._listener = sockets.listen()
        self._call: sockets.ConnectAttempt | None = None
        self._line: Connection | None = None
        self._welcome = False
        self._wait = _SOONEST
        self._alone_since = time.monotonic()
        self._seen = 0
        """The newest generation that was started here."""
        self._said: Message | None = None
        """How the ranks did, last; it may not have been heard."""
        self._outcome: state_machine.EndRun | None = None
        """What this agent ends with, if nobody tells it anything else."""
        self._next: Message | None = None

    def begin(self) -> None:
        """Find the controller."""
        self._dial()
        self._look()

    def hear(self, event: RankEvent) -> None:
        """How the ranks of this node do."""
        if isinstance(event, RanksStopped) and self._next is not None:
            said, self._next = self._next, None
            self._start(said)
            return
        if isinstance(event, RanksSucceeded):
            self._outcome = state_machine.EndRun(0, "all ranks of this node have ended well")
        elif isinstance(event, RankFailed):
            self._outcome = state_machine.EndRun(event.code, event.why)
        self._said = message_of(event)
        self._tell(self._said)

    def leave(self) -> None:
        """Hang up."""
        if self._line is not None:
            self._line.close()

    # --- the line ----------------------------------------------------------------------------------------

    def _dial(self) -> None:
        self._call = sockets.ConnectAttempt(self._loop, self._host, self._port, self._answered, patience=3.0)

    def _answered(self, link: socket.socket | None) -> None:
        self._call = None
        if link is None:
            self._again()
            return
        self._line = Connection(self._loop, link, self._hear_controller, lambda _line: self._again())
        self._line.say({
            "say": "hello",
            **self._me,
            "ranks": self._ranks,
            "address": self._options.local_addr or self._line.here,
            "port": self._listener.getsockname()[1],
            "generation": self._local.generation,
            "seen": self._seen,
            "last": self._said,
        })  # fmt: skip

    def _again(self) -> None:
        if self._welcome:
            messages.print_message("the controller is away: ranks go on")
            self._alone_since = time.monotonic()
        self._line, self._welcome = None, False
        self._loop.after(self._wait, self._dial)
        self._wait = min(_LATEST, self._wait * 2)

    def _tell(self, message: Message) -> None:
        if self._line is not None and self._welcome:
            self._line.say(message)

    def _look(self) -> None:
        self._loop.after(_LOOK, self._look)
        now = time.monotonic()
        if self._line is not None and now - self._line.heard > _SILENT:
            self._line.lose()
        elif self._welcome:
            self._tell(self._beat(now))
        else:
            self._look_whether_lost(now - self._alone_since)

    def _beat(self, now: float) -> Message:
        measured, recovered = self._local.measured, self._local.recovered
        return {
            "say": "beat",
            "generation": self._local.generation,
            "behind": list(self._local.behind(now)),
            "silence": self._options.limits.silence,
            "measured": None if measured is None else measured._asdict(),
            "recovered": None if recovered is None else recovered._asdict(),
        }

    def _look_whether_lost(self, alone: float) -> None:
        outcome = self._outcome
        if outcome is not None and alone > (_PATIENCE if outcome.code else _ENDED_WELL):
            self._close(outcome)
        elif not self._seen and alone > _PATIENCE:
            where = f"{self._host}:{self._port}"
            why = f"nobody answers at {where} after {alone:.0f} s: is the operator there, may this pod reach it?"
            self._close(state_machine.EndRun(wire.ExitCode.RETRY, why))

    # --- what it is told ---------------------------------------------------------------------------------

    def _hear_controller(self, line: Connection, said: Message) -> None:
        try:
            self._obey(said)
        except (KeyError, TypeError, ValueError):  # not what a controller says
            line.lose()

    def _obey(self, said: Message) -> None:
        what = said["say"]
        if what == "welcome":
            self._welcome, self._wait = True, _SOONEST
        elif what == "start":
            self._start(said)
        elif what == "halt":
            self._local.halt(said["generation"], said["why"], planned=said["planned"])
        elif what == "interrogate":
            interrogate(self._loop, self._local, said["rank"])
        elif what in {"close", "refused"}:
            self._close(state_machine.EndRun(said["code"], said["why"]))

    def _start(self, said: Message) -> None:
        membership = wire.decode(json.dumps(said["membership"]).encode())
        assert isinstance(membership, wire.Membership)  # noqa: S101 - what is sent with start
        if self._local.generation and not said["keep"]:  # a word in between was lost
            self._next = said
            self._local.halt(self._local.generation, said["why"])
            return
        self._seen, self._outcome, self._said = membership.generation, None, None
        start_ranks(self._local, membership, self._store(membership), keep=said["keep"], why=said["why"])

    def _store(self, membership: wire.Membership) -> socket.socket | None:
        """Where ranks are to meet, if that is here; the next generation's is another port."""
        if membership.me != 0:
            return None
        listener, self._listener = self._listener, sockets.listen()
        self._tell({"say": "port", "port": self._listener.getsockname()[1]})
        return listener


def write_termination_message(why: str, environment: Any = os.environ) -> None:
    """Leave them where a kubelet finds them; where nothing can be written they stay unsaid."""
    path = environment.get(wire.LAST_WORDS)
    if path:
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"{why}\n")
        except OSError as wrong:
            messages.print_message(f"{path}: {wrong.strerror}")
