"""Heartbeats of a rank reach its agent through shared memory, also after the rank has ended."""

import array
import os
import socket
import tempfile
from pathlib import Path

import pytest

from windlass import wire
from windlass.agent.event_loop import EventLoop
from windlass.agent.ranks.heartbeats import HeartbeatReceiver
from windlass.train.telemetry.heartbeat import HeartbeatSender


class Agent:
    """The receiver of an agent, without the rest."""

    def __init__(self, folder):
        self.loop, self.heard = EventLoop(), []
        self.receiver = HeartbeatReceiver(self.loop, folder, lambda message, _at: self.heard.append(message))
        self.variables = {wire.AGENT_SOCKET: self.receiver.path, wire.HEARTBEAT_RING: wire.RING_LAYOUT}

    def receive(self):
        """All messages that have come."""
        self.loop.after(0.05, self.loop.end)
        self.loop.run()
        self.loop._ended = False
        self.receiver.read_rings()
        received, self.heard = self.heard, []
        return received

    def phases(self):
        """Phases of the heartbeats that have come."""
        return [each.phase for each in self.receive() if isinstance(each, wire.Heartbeat)]


@pytest.fixture
def agent(tmp_path):
    agent = Agent(tmp_path)
    yield agent
    agent.receiver.close()


def test_each_heartbeat_is_read_once(agent):
    rank = HeartbeatSender(0, agent.variables)
    rank.beat("data")
    rank.beat("forward")
    assert agent.phases() == ["data", "forward"]
    rank.beat("backward")
    assert agent.phases() == ["backward"]
    assert agent.phases() == []
    rank.close()


def test_no_heartbeat_is_lost_where_a_socket_would_be_full(agent):
    rank = HeartbeatSender(0, agent.variables)
    for _ in range(1000):
        rank.beat("forward")
    assert len(agent.phases()) == 1000
    rank.close()


def test_the_last_heartbeat_of_a_killed_rank_is_read(agent):
    if (pid := os.fork()) == 0:
        HeartbeatSender(3, agent.variables).beat("backward")
        os.kill(os.getpid(), 9)
    os.waitpid(pid, 0)
    assert agent.phases() == ["backward"]


def test_a_killed_rank_leaves_files_only_in_the_agents_folder(agent, tmp_path, monkeypatch):
    (elsewhere := tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    if (pid := os.fork()) == 0:
        HeartbeatSender(3, agent.variables)
        os.kill(os.getpid(), 9)
    os.waitpid(pid, 0)
    assert not list(elsewhere.iterdir())
    left = set(Path(agent.receiver.path).parent.glob("*")) - {Path(agent.receiver.path), elsewhere}
    assert [file.is_socket() for file in left] == [True]


def test_a_rank_that_ends_leaves_no_files(agent):
    HeartbeatSender(3, agent.variables).close()
    assert [file.name for file in Path(agent.receiver.path).parent.iterdir()] == ["agent.sock"]


def test_a_rank_receives_messages_where_the_agents_path_is_as_long_as_possible(tmp_path):
    folder = tmp_path / ("long" * 30)[: 107 - len(f"{tmp_path}//agent.sock")]
    folder.mkdir()
    agent = Agent(folder)
    rank = HeartbeatSender(0, agent.variables)
    agent.receive()
    agent.receiver.send([0], wire.Membership(2, (), 0, rank=0))
    assert rank.next_membership(5.0) is not None
    rank.close()
    agent.receiver.close()


def test_a_rank_goes_on_when_its_agents_folder_is_gone(tmp_path):
    rank = HeartbeatSender(
        0, {wire.AGENT_SOCKET: str(tmp_path / "gone/agent.sock"), wire.HEARTBEAT_RING: wire.RING_LAYOUT}
    )
    rank.beat("data")
    rank.close()


def test_both_runs_of_one_process_are_read(agent):
    for phase in ("data", "forward"):
        rank = HeartbeatSender(0, agent.variables)
        rank.beat(phase)
        assert agent.phases() == [phase]
        rank.close()


def test_a_survivor_is_read_in_its_next_generation(agent):
    rank = HeartbeatSender(1, agent.variables)
    rank.beat("data")
    agent.receive()
    agent.receiver.forget()
    rank.enter(wire.Membership(2, (), 0, rank=0))
    rank.beat("forward")
    received = agent.receive()
    assert [(each.rank, each.generation) for each in received if isinstance(each, wire.Hello)] == [(0, 2)]
    assert wire.Heartbeat(0, 2, 0, "forward", 1) in received
    rank.close()


def test_an_agent_with_another_ring_layout_gets_each_heartbeat_as_a_message(agent):
    del agent.variables[wire.HEARTBEAT_RING]
    rank = HeartbeatSender(0, agent.variables)
    rank.beat("data")
    assert agent.phases() == ["data"]
    assert not agent.receiver._rings
    rank.close()


@pytest.mark.parametrize("size", [0, 10])
def test_a_descriptor_that_is_no_ring_is_ignored(agent, size, tmp_path):
    (tmp_path / "small").write_bytes(bytes(size))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as rank, (tmp_path / "small").open() as file:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file.fileno()]))]
        rank.sendmsg([wire.encode(wire.Hello(0, 1, 1))], rights, 0, agent.receiver.path)
    assert agent.receive() == [wire.Hello(0, 1, 1)]
