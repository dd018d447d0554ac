"""Agents whose memberships come over TCP: real agents, and the operator's own leading of them without a cluster."""

import asyncio
import os
import signal
import socket
import threading
from contextlib import contextmanager

from windlass.backends.kubernetes.agents import hub
from windlass.backends.kubernetes.agents.rendezvous import Ears, Rendezvous
from windlass.core.model.job import RestartPolicy

WAITS = """
import os, pathlib, time
rank, generation = os.environ["RANK"], os.environ["WINDLASS_GENERATION"]
print(f"rank {rank} of {os.environ['WORLD_SIZE']} meets at {os.environ['MASTER_PORT']}")
print(f"rank {rank} generation {generation} pid {os.getpid()}", flush=True)
while not pathlib.Path(f"end-{generation}").exists():
    time.sleep(0.02)
"""


class Leader(hub.Host):
    """Leads the agents of the pods p0 and p1. `forgiving`: whether ranks may start again."""

    def __init__(self, *, forgiving=True):
        self.forgiving, self.restarts, self.hangs = forgiving, [], []
        self.meeting, self.callers = None, {}

    def welcome(self, hello, caller):
        clock = asyncio.get_running_loop().time
        if self.meeting is None:
            ears = Ears(lambda _failed: self.forgiving, lambda *told: self.restarts.append(told), self._hangs, list)
            self.meeting = Rendezvous({"p0": 0, "p1": 1}, 1, ears, clock(), RestartPolicy(backoff_base=10))
        name = hello["name"].partition("/")[2]
        self.callers[caller] = name
        self.meeting.join(name, f"node-of-{name}", hello, caller, clock())
        return lambda said: self.meeting.hear(name, said, clock())

    def left(self, caller):
        if name := self.callers.pop(caller, None):
            self.meeting.left(name, caller)

    def look(self):
        if self.meeting is not None:
            self.meeting.look(asyncio.get_running_loop().time())

    def _hangs(self, rank, why):
        self.hangs.append((rank, why))


@contextmanager
def leading(leader, port):
    """The leader answers at this port."""
    loop = asyncio.new_event_loop()
    tasks = []

    def run():
        asyncio.set_event_loop(loop)
        task = loop.create_task(hub.serve(socket.create_server(("127.0.0.1", port)), leader))
        tasks.append(task)
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(tasks[0].cancel)
        thread.join()


def two(bare, port, *words, **more):
    told = {"WINDLASS_CONTROLLER": f"127.0.0.1:{port}", "PET_NPROC_PER_NODE": "2", **more}
    return [bare(*words, "SCRIPT", script=WAITS, WINDLASS_AGENT_NAME=f"team/p{at}", **told) for at in (0, 1)]


def test_a_killed_rank_starts_all_again_where_they_are(bare, port, tmp_path):
    with leading(leader := Leader(), port):
        agents = two(bare, port)
        first = [agent.pid_of(rank) for agent, rank in ((agents[0], 0), (agents[1], 3))]
        os.kill(first[1], signal.SIGKILL)
        second = [agent.pid_of(rank, 2) for agent, rank in ((agents[0], 0), (agents[1], 3))]
        (tmp_path / "end-2").touch()
        assert [agent.ends() for agent in agents] == [0, 0]
    assert not set(first) & set(second)
    ((generation, why, failure),) = leader.restarts
    assert (generation, failure.code, failure.id) == (2, -signal.SIGKILL, "p1")
    assert f"rank 3 (pid {first[1]}) killed by SIGKILL" in why
    assert "rank 2 of 4" in agents[1].said


def test_ranks_go_on_without_a_leader_and_the_next_one_takes_them_up(bare, port, tmp_path):
    with leading(Leader(), port):
        agents = two(bare, port)
        pids = [agents[0].pid_of(1), agents[1].pid_of(2)]
    for agent in agents:
        agent.until("the controller is away: ranks go on")
    with leading(leader := Leader(), port):
        os.kill(pids[1], signal.SIGKILL)
        agents[0].pid_of(1, 2)  # whoever leads now has heard of it
        (tmp_path / "end-2").touch()
        assert [agent.ends() for agent in agents] == [0, 0]
    assert [generation for generation, *_ in leader.restarts] == [2]
    assert "generation 1" in agents[0].said


def test_ranks_that_end_well_need_nobody_to_tell_them(bare, port, tmp_path):
    with leading(Leader(), port):
        agents = two(bare, port)
        agents[0].pid_of(0)
        agents[1].pid_of(2)
    (tmp_path / "end-1").touch()
    assert [agent.ends() for agent in agents] == [0, 0]


def test_what_is_not_forgiven_ends_all_with_the_ranks_own_end_and_its_last_words(bare, port, tmp_path):
    with leading(Leader(forgiving=False), port):
        agents = two(bare, port, WINDLASS_TERMINATION_MESSAGE_PATH=str(tmp_path / "last-words"))
        os.kill(agents[1].pid_of(2), signal.SIGKILL)
        assert [agent.ends() for agent in agents] == [128 + 9, 128 + 9]
    assert "rank 2 (pid" in (tmp_path / "last-words").read_text()


def test_silence_is_a_hang_and_starts_all_again(bare, port, tmp_path):
    for generation in range(2, 20):  # on a busy machine a start may take as long as silence may
        (tmp_path / f"end-{generation}").touch()
    with leading(leader := Leader(), port):
        agents = two(bare, port, "--hang", "silence=3")
        assert [agent.ends() for agent in agents] == [0, 0]
    assert leader.hangs[0][0] == -1
    assert leader.restarts[0][1].startswith("hang: no rank has printed anything for")


def test_a_place_that_is_no_address_is_refused(bare):
    agent = bare("SCRIPT", script=WAITS, WINDLASS_CONTROLLER="nowhere")
    assert agent.ends() == 2
    assert "HOST:PORT" in agent.said
