"""Memberships arrive in one thread and are entered in another; connections are shut down while others open."""

import contextlib
import mmap
import os
import socket
from pathlib import Path

import pytest

from windlass import wire
from windlass.train.recovery.connections import GroupConnections
from windlass.train.recovery.peer_loss import PeerLossGuard
from windlass.train.telemetry.heartbeat import HeartbeatSender


def of(generation):
    return wire.Membership(generation=generation, members=(), me=0, rank=3, address="", port=1)


def test_an_entered_membership_is_not_entered_again_and_a_newer_one_stays():
    heart = HeartbeatSender(0, {})
    assert heart._accept_membership(of(2))
    entering = heart.next_membership()
    assert heart._accept_membership(of(2))  # the same one again
    heart.enter(entering)
    assert heart.next_membership() is None
    assert not heart._accept_membership(of(2))
    assert heart._accept_membership(of(3))
    assert heart._accept_membership(of(4))
    heart.enter(of(3))
    assert heart.next_membership() == of(4)


def test_heartbeat_counts_restart_when_ranks_join(tmp_path):
    path = str(tmp_path / "agent.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as agent:
        agent.bind(path)
        heart = HeartbeatSender(1, {wire.AGENT_SOCKET: path, wire.HEARTBEAT_RING: wire.RING_LAYOUT})
        heart.beat("evaluate")
        heart.beat("outside")
        heart.reset_count()
        heart.beat("data")
        _, [file], _, _ = socket.recv_fds(agent, 65536, 1)  # with its first message
        with mmap.mmap(file, wire.RING_SIZE, prot=mmap.PROT_READ) as track:
            _, received = wire.read_heartbeats(track, 0)
        os.close(file)
        heart.close()
    assert [(each.phase, each.beat) for each, _ in received] == [("evaluate", 1), ("outside", 2), ("data", 1)]


def test_the_survivors_variable_is_read_once(monkeypatch):
    monkeypatch.setenv(wire.SURVIVORS, "1")
    assert PeerLossGuard(HeartbeatSender(0, {}), None).is_joining
    assert wire.SURVIVORS not in os.environ
    assert not PeerLossGuard(HeartbeatSender(0, {}), None).is_joining


@pytest.fixture
def pair():
    """Return a function that opens both ends of a TCP connection."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

        def make():
            one = stack.enter_context(socket.create_connection(listener.getsockname()))
            other = stack.enter_context(listener.accept()[0])
            other.settimeout(5.0)
            return one, other

        yield make


def is_cut(link):
    link.setblocking(False)
    try:
        return link.recv(1) == b""
    except BlockingIOError:
        return False


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="connections are known from /proc")
def test_a_shutdown_while_connections_open_includes_later_ones(pair):
    connections = GroupConnections()
    outside, _ = pair()
    with connections.tracking():
        before, _ = pair()
        connections.shut_down()
        after, _ = pair()
    assert (is_cut(outside), is_cut(before), is_cut(after)) == (False, True, True)
    with connections.tracking():
        later, _ = pair()
    assert not is_cut(later)
    connections.shut_down()
    assert is_cut(later)
