"""Looking for the leader: one place after the other, again and again, until somebody takes this agent in."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Callable, NamedTuple

from windlass.agent.event_loop import EventLoop, Timer
from windlass.agent.rendezvous.sockets import ConnectAttempt

_AGAIN = 0.2


class Endpoint(NamedTuple):
    """A place where the leader may be; with an empty host, this agent itself."""

    host: str
    port: int

    @classmethod
    def mine(cls) -> Endpoint:
        """Nobody before this agent is left."""
        return cls("", 0)


class LeaderSearch:
    """`ask` gets a connection, or None for this agent's own turn; `nobody` is called after each round in vain.

    `gave_up` is called once, `patience` seconds after the beginning.
    """

    def __init__(
        self,
        loop: EventLoop,
        targets: Sequence[Endpoint],
        patience: float,
        ask: Callable[[socket.socket | None], None],
        nobody: Callable[[], None],
        gave_up: Callable[[], None],
    ) -> None:
        self._loop, self._targets, self._ask, self._nobody = loop, list(targets), ask, nobody
        self._next = 0
        self._call: ConnectAttempt | None = None
        self._timer: Timer | None = loop.after(0, self._try)
        self._end = loop.after(patience, gave_up)

    def cancel(self) -> None:
        """The leader is found."""
        self._end.cancel()
        if self._call is not None:
            self._call.cancel()
        if self._timer is not None:
            self._timer.cancel()

    def turned_away(self, target: Endpoint | None) -> None:
        """Who answered does not lead: ask again a little later, or there where it says."""
        if target is not None and target not in self._targets:
            self._targets.insert(self._next, target)
        self._timer = self._loop.after(_AGAIN, self._try)

    def _try(self) -> None:
        target = self._targets[self._next]
        if not target.host:
            self._ask(None)
        else:
            self._call = ConnectAttempt(self._loop, target.host, target.port, self._answered)

    def _answered(self, link: socket.socket | None) -> None:
        self._call = None
        if link is not None:
            self._ask(link)
        elif self._next + 1 < len(self._targets):
            self._next += 1
            self._try()
        else:
            self._next = 0
            self._timer = self._loop.after(_AGAIN, self._try)
            self._nobody()
