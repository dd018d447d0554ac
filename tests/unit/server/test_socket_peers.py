"""Peers that a daemon serves: its own user and root, as the kernel tells them."""

from __future__ import annotations

import json
import os
import struct
from typing import Any

import pytest

from windlass.server import http_server
from windlass.server import unix_socket as unix


class Transport:
    """A connection to a process of some user."""

    def __init__(self, uid: int) -> None:
        self.uid = uid
        self.written = b""
        self.closed = False

    def get_extra_info(self, name: str) -> Any:
        return self if name == "socket" else None

    def getsockopt(self, *_which: int) -> bytes:
        return struct.pack("3i", 4_321, self.uid, 5)

    def getsockname(self) -> str:
        return ""

    getpeername = getsockname

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def connects(daemon):
    """`connects(uid)`: the connection after a process of this user has connected."""

    async def connect(uid: int) -> Transport:
        from uvicorn.server import ServerState  # noqa: PLC0415 - slow, and for these tests only

        config = http_server._make_server(daemon.service, daemon.actions).config
        config.load()
        transport = Transport(uid)
        config.http_protocol_class(config, ServerState(), {}).connection_made(transport)
        return transport

    return lambda uid: daemon.runner.run(connect(uid))


def test_the_kernel_tells_pid_and_uid_of_the_peer():
    assert unix.peer(Transport(77)) == (4_321, 77)


@pytest.mark.parametrize("uid", [0, os.getuid()])
def test_root_and_the_owner_are_served(connects, uid):
    line = connects(uid)
    assert (line.written, line.closed) == (b"", False)


def test_other_users_are_refused_before_they_send_anything(connects):
    line = connects(os.getuid() + 1)
    head, _, body = line.written.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 403 ")
    assert f"Content-Length: {len(body)}".encode() in head
    assert json.loads(body)["error"]["code"] == "not_allowed"
    assert line.closed
