"""A connection between agents whose other side is gone already."""

from __future__ import annotations

import select
import socket
import struct

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
