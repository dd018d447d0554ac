"""Agents of a large gang that come at once. Ranks are not started."""

from __future__ import annotations

from windlass.agent.event_loop import EventLoop
from windlass.agent.hang_detection import SlowestRank
from windlass.agent.options import Options, RendezvousOptions
from windlass.agent.rendezvous import leader_server
from windlass.agent.rendezvous.followers import FollowerConnections
from windlass.agent.rendezvous.multi_node import MultiNode
from windlass.agent.rendezvous.state_machine import Peer, RendezvousRules
from windlass.agent.rendezvous.unproven_connections import UnprovenConnections
from windlass.controlplane.processes import free_port

AGENTS = 12


class NoRanks:
    """Notes the memberships with which ranks would be started."""

    generation, has_ranks = 0, False

    def __init__(self, started, loop):
        self.started, self.loop = started, loop

    def start(self, membership, listener, **_):
        if listener is not None:
            listener.close()
        self.started.append(membership)
        if len(self.started) == AGENTS:
            self.loop.end()

    def slowest_rank(self, _):
        return SlowestRank()


def agent(loop, started, number, port):
    rendezvous = RendezvousOptions("127.0.0.1", port, "run", is_host=number == 0, secret=b"5f" * 32)
    options = Options(("x.py",), "script", "8", (AGENTS, AGENTS), rendezvous, local_addr="127.0.0.1")
    rules = RendezvousRules(min_agents=AGENTS, max_agents=AGENTS)
    me = Peer(f"agent-{number}", f"node-{number}", "127.0.0.1", 0, 8)
    return MultiNode(loop, options, rendezvous, rules, me, NoRanks(started, loop), lambda _: loop.end())


def test_agents_that_come_together_are_in_one_roster(monkeypatch):
    """With one roster for each, the bytes that a gang sends grow with the cube of its agents."""
    monkeypatch.setattr(leader_server, "_ROSTER_DELAY_PER_FOLLOWER_S", 60.0)
    sent, really = [], FollowerConnections.send_to_all
    monkeypatch.setattr(FollowerConnections, "send_to_all", lambda self, m: (sent.append(m["type"]), really(self, m)))
    port, loop, started = free_port(), EventLoop(), []
    agents = [agent(loop, started, number, port) for number in range(AGENTS)]
    for each in agents:
        each.begin()
    loop.after(60, loop.end)
    loop.run()
    for each in agents:
        each.leave()
    assert sorted(membership.me for membership in started) == list(range(AGENTS))
    assert {len(membership.members) for membership in started} == {AGENTS}
    assert "roster" not in sent


class Connection:
    is_open, is_peer_proven = True, False

    def lose(self):
        self.is_open = False


def test_all_agents_of_a_run_may_connect_at_once_beside_a_number_of_strangers():
    unproven, connections = UnprovenConnections(EventLoop(), 1000), [Connection() for _ in range(1065)]
    for each in connections[:1064]:
        unproven.add(each)
    assert all(each.is_open for each in connections[:1064])
    unproven.add(connections[1064])
    assert [each.is_open for each in connections] == [False] + [True] * 1064
