"""A rank's heartbeats reach its agent through memory that they share, whatever became of the rank."""

import array
import os
import socket
import tempfile
from pathlib import Path

import pytest

from windlass import wire
from windlass.agent.event_loop import EventLoop
from windlass.agent.ranks.heartbeats import HeartbeatReceiver as Ears
from windlass.train.telemetry.heart import Heart


class Agent:
    """Its ears alone."""

    def __init__(self, folder):
        self.loop, self.heard = EventLoop(), []
        self.ears = Ears(self.loop, folder, lambda message, _at: self.heard.append(message))
        self.variables = {wire.AGENT_SOCKET: self.ears.path, wire.HEARTBEAT_RING: wire.RING_LAYOUT}

    def listens(self):
        """To all that has come."""
        self.loop.after(0.05, self.loop.end)
        self.loop.run()
        self.loop._ended = False
        self.ears.read_rings()
        heard, self.heard = self.heard, []
        return heard

    def hears(self):
        """The phases of what has come."""
        return [each.phase for each in self.listens() if isinstance(each, wire.Heartbeat)]


@pytest.fixture
def agent(tmp_path):
    agent = Agent(tmp_path)
    yield agent
    agent.ears.close()


def test_each_is_heard_once_and_none_comes_as_a_datagram(agent):
    rank = Heart(0, agent.variables)
    rank.beat("data")
    rank.beat("forward")
    assert agent.hears() == ["data", "forward"]
    rank.beat("backward")
    assert agent.hears() == ["backward"]
    assert agent.hears() == []
    rank.close()


def test_none_is_lost_where_a_socket_would_be_full(agent):
    rank = Heart(0, agent.variables)
    for _ in range(1000):
        rank.beat("forward")
    assert len(agent.hears()) == 1000
    rank.close()


def test_what_a_killed_rank_did_last_is_known(agent):
    if (pid := os.fork()) == 0:
        Heart(3, agent.variables).beat("backward")
        os.kill(os.getpid(), 9)
    os.waitpid(pid, 0)
    assert agent.hears() == ["backward"]


def test_what_a_killed_rank_leaves_behind_is_where_its_agent_clears_up(agent, tmp_path, monkeypatch):
    (elsewhere := tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    if (pid := os.fork()) == 0:
        Heart(3, agent.variables)
        os.kill(os.getpid(), 9)
    os.waitpid(pid, 0)
    assert not list(elsewhere.iterdir())
    left = set(Path(agent.ears.path).parent.glob("*")) - {Path(agent.ears.path), elsewhere}
    assert [file.is_socket() for file in left] == [True]


def test_one_that_ends_leaves_nothing_even_there(agent):
    Heart(3, agent.variables).close()
    assert [file.name for file in Path(agent.ears.path).parent.iterdir()] == ["agent.sock"]


def test_where_the_agents_name_fits_into_an_address_a_rank_can_be_told(tmp_path):
    folder = tmp_path / ("long" * 30)[: 107 - len(f"{tmp_path}//agent.sock")]
    folder.mkdir()
    agent = Agent(folder)
    rank = Heart(0, agent.variables)
    agent.listens()
    agent.ears.send([0], wire.Membership(2, (), 0, rank=0))
    assert rank.next_membership(5.0) is not None
    rank.close()
    agent.ears.close()


def test_an_agent_that_has_gone_with_its_folder_is_not_missed(tmp_path):
    rank = Heart(0, {wire.AGENT_SOCKET: str(tmp_path / "gone/agent.sock"), wire.HEARTBEAT_RING: wire.RING_LAYOUT})
    rank.beat("data")
    rank.close()


def test_a_process_that_trains_twice_is_heard_twice(agent):
    for phase in ("data", "forward"):
        rank = Heart(0, agent.variables)
        rank.beat(phase)
        assert agent.hears() == [phase]
        rank.close()


def test_who_goes_on_in_another_generation_is_heard_there(agent):
    rank = Heart(1, agent.variables)
    rank.beat("data")
    agent.listens()
    agent.ears.forget()
    rank.enter(wire.Membership(2, (), 0, rank=0))
    rank.beat("forward")
    heard = agent.listens()
    assert [(each.rank, each.generation) for each in heard if isinstance(each, wire.Hello)] == [(0, 2)]
    assert wire.Heartbeat(0, 2, 0, "forward", 1) in heard
    rank.close()


def test_an_agent_that_knows_no_tracks_is_told_each_heartbeat(agent):
    del agent.variables[wire.HEARTBEAT_RING]
    rank = Heart(0, agent.variables)
    rank.beat("data")
    assert agent.hears() == ["data"]
    assert not agent.ears._rings
    rank.close()


@pytest.mark.parametrize("size", [0, 10])
def test_a_descriptor_of_anything_else_does_no_harm(agent, size, tmp_path):
    (tmp_path / "small").write_bytes(bytes(size))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as rank, (tmp_path / "small").open() as file:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file.fileno()]))]
        rank.sendmsg([wire.encode(wire.Hello(0, 1, 1))], rights, 0, agent.ears.path)
    assert agent.listens() == [wire.Hello(0, 1, 1)]
