"""Searches for the leading agent: calls one endpoint after the other, in rounds, until an agent accepts this one.

`follower` starts a search with the rendezvous endpoint, or with the addresses of the roster.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Callable, NamedTuple

from windlass.agent.event_loop import DelayedCall, EventLoop
from windlass.agent.rendezvous.sockets import ConnectAttempt

_RETRY_S = 0.2


class Endpoint(NamedTuple):
    """Address at which the leader may be; with an empty host, this agent itself."""

    host: str
    port: int

    @classmethod
    def own(cls) -> Endpoint:
        """This agent: no agent before it in the order of succession is left."""
        return cls("", 0)


class LeaderSearch:
    """One search. Calls `ask` with a connection, or with None when this agent is next in the roster and leads.

    Calls `on_no_answer` after each round without an answer, and `give_up` once, `timeout` seconds after the start.
    """

    def __init__(
        self,
        loop: EventLoop,
        endpoints: Sequence[Endpoint],
        timeout: float,
        ask: Callable[[socket.socket | None], None],
        on_no_answer: Callable[[], None],
        give_up: Callable[[], None],
    ) -> None:
        self._loop, self._endpoints, self._ask, self._on_no_answer = loop, list(endpoints), ask, on_no_answer
        self._next = 0
        self._attempt: ConnectAttempt | None = None
        self._timer: DelayedCall | None = loop.after(0, self._try)
        self._end = loop.after(timeout, give_up)

    def cancel(self) -> None:
        """Ends the search."""
        self._end.cancel()
        if self._attempt is not None:
            self._attempt.cancel()
        if self._timer is not None:
            self._timer.cancel()

    def redirect(self, endpoint: Endpoint | None) -> None:
        """Continues because the agent that answered does not lead: at the endpoint that it named, or again later."""
        if endpoint is not None and endpoint not in self._endpoints:
            self._endpoints.insert(self._next, endpoint)
        self._timer = self._loop.after(_RETRY_S, self._try)

    def skip(self) -> None:
        """Continues with the next endpoint because the process that answered has not proved to be an agent."""
        self._on_answer(None)

    def _try(self) -> None:
        endpoint = self._endpoints[self._next]
        if not endpoint.host:
            self._ask(None)
        else:
            self._attempt = ConnectAttempt(self._loop, endpoint.host, endpoint.port, self._on_answer)

    def _on_answer(self, link: socket.socket | None) -> None:
        self._attempt = None
        if link is not None:
            self._ask(link)
        elif self._next + 1 < len(self._endpoints):
            self._next += 1
            self._try()
        else:
            self._next = 0
            self._timer = self._loop.after(_RETRY_S, self._try)
            self._on_no_answer()
