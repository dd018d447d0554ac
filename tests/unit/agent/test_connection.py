"""A connection between agents whose other side is gone, or silent."""

from __future__ import annotations

import select
import socket
import struct
import time

import pytest

from windlass.agent.event_loop import EventLoop
from windlass.agent.rendezvous.connection import AgentConnection


def test_the_address_of_a_peer_that_has_reset_the_connection_is_empty():
    """Its messages may arrive all the same; an exception in the event loop would end the agent that leads."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        link, _ = server.accept()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.sendall(b"hello")
        client.close()
        poll = select.poll()
        poll.register(link, select.POLLHUP)
        assert poll.poll(5000)
        connection = AgentConnection(EventLoop(), link, lambda *_: None, lambda _: None)
        assert connection.peer_address == ""
        connection.close()


@pytest.fixture
def pair():
    """A connection, the socket of its other side, its event loop, and a list that is filled when it is lost."""
    ours, theirs = socket.socketpair()
    loop, lost = EventLoop(), []
    connection = AgentConnection(loop, ours, lambda *_: None, lost.append)
    with theirs:
        yield connection, theirs, loop, lost
    connection.close()


def test_an_agent_is_lost_when_it_has_left_a_number_of_heartbeats_in_a_row_unanswered(pair):
    connection, theirs, loop, lost = pair
    for _ in range(3):
        connection.beat({"type": "beat"}, attempts=3)
    theirs.sendall(b'{"type": "beat"}\n')
    loop.after(0.05, loop.end)
    loop.run()
    for _ in range(3):
        connection.beat({"type": "beat"}, attempts=3)
    assert not lost
    connection.beat({"type": "beat"}, attempts=3)
    assert lost == [connection]


def test_a_pause_of_this_agent_makes_no_other_agent_lost(pair, monkeypatch):
    connection, _, _, lost = pair
    connection.beat({"type": "beat"}, attempts=3)
    monkeypatch.setattr(time, "monotonic", lambda: 1e9)
    connection.beat({"type": "beat"}, attempts=3)
    assert not lost


def test_a_closed_connection_is_lost_at_once(pair):
    _, theirs, loop, lost = pair
    theirs.close()
    loop.after(0.05, loop.end)
    loop.run()
    assert len(lost) == 1
