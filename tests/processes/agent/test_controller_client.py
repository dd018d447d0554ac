"""Agents under a controller over TCP: real agents, and the operator's rendezvous without a cluster."""

import asyncio
import os
import signal
import socket
import threading
from contextlib import contextmanager

from windlass.backends.kubernetes.agents import agent_server
from windlass.backends.kubernetes.agents.rendezvous import Rendezvous, RendezvousCallbacks
from windlass.core.model.job import RestartPolicy

WAITS = """
import os, pathlib, time
rank, generation = os.environ["RANK"], os.environ["WINDLASS_GENERATION"]
print(f"rank {rank} of {os.environ['WORLD_SIZE']} meets at {os.environ['MASTER_PORT']}")
print(f"rank {rank} generation {generation} pid {os.getpid()}", flush=True)
while not pathlib.Path(f"end-{generation}").exists():
    time.sleep(0.02)
"""


class Controller(agent_server.MessageHandler):
    """Leads the agents of the pods p0 and p1. `restarts_allowed`: whether ranks may start again."""

    def __init__(self, *, restarts_allowed=True):
        self.restarts_allowed, self.restarts, self.hangs = restarts_allowed, [], []
        self.rendezvous, self.connections = None, {}

    def connect(self, hello, connection):
        clock = asyncio.get_running_loop().time
        if self.rendezvous is None:
            callbacks = RendezvousCallbacks(
                lambda _failed: self.restarts_allowed, lambda *restart: self.restarts.append(restart), self._hangs, list
            )
            self.rendezvous = Rendezvous({"p0": 0, "p1": 1}, 1, callbacks, clock(), RestartPolicy(backoff_base=10))
        name = hello["name"].partition("/")[2]
        self.connections[connection] = name
        self.rendezvous.join(name, f"node-of-{name}", hello, connection, clock())
        return lambda message: self.rendezvous.receive(name, message, clock())

    def disconnect(self, connection):
        if name := self.connections.pop(connection, None):
            self.rendezvous.agents.disconnect(name, connection)

    def check_timeouts(self):
        if self.rendezvous is not None:
            self.rendezvous.check_timeouts(asyncio.get_running_loop().time())

    def _restarted(self, *restart):
        self.restarts.append(restart)

    def _hangs(self, rank, why):
        self.hangs.append((rank, why))


@contextmanager
def serving(controller, port):
    """The controller answers at this port."""
    loop = asyncio.new_event_loop()
    tasks = []

    def run():
        asyncio.set_event_loop(loop)
        task = loop.create_task(agent_server.serve(socket.create_server(("127.0.0.1", port)), controller))
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
    variables = {"WINDLASS_CONTROLLER": f"127.0.0.1:{port}", "PET_NPROC_PER_NODE": "2", **more}
    return [bare(*words, "SCRIPT", script=WAITS, WINDLASS_AGENT_NAME=f"team/p{at}", **variables) for at in (0, 1)]


def test_a_killed_rank_restarts_all_ranks_in_place(bare, port, tmp_path):
    with serving(controller := Controller(), port):
        agents = two(bare, port)
        first = [agent.pid_of(rank) for agent, rank in ((agents[0], 0), (agents[1], 3))]
        os.kill(first[1], signal.SIGKILL)
        second = [agent.pid_of(rank, 2) for agent, rank in ((agents[0], 0), (agents[1], 3))]
        (tmp_path / "end-2").touch()
        assert [agent.ends() for agent in agents] == [0, 0]
    assert not set(first) & set(second)
    ((generation, why, failure),) = controller.restarts
    assert (generation, failure.code, failure.agent_id) == (2, -signal.SIGKILL, "p1")
    assert f"rank 3 (pid {first[1]}) killed by SIGKILL" in why
    assert "rank 2 of 4" in agents[1].output


def test_ranks_go_on_without_a_controller_and_the_next_one_adopts_them(bare, port, tmp_path):
    with serving(Controller(), port):
        agents = two(bare, port)
        pids = [agents[0].pid_of(1), agents[1].pid_of(2)]
    for agent in agents:
        agent.until("the controller is away: ranks go on")
    with serving(controller := Controller(), port):
        os.kill(pids[1], signal.SIGKILL)
        agents[0].pid_of(1, 2)  # the second controller has received the failure
        (tmp_path / "end-2").touch()
        assert [agent.ends() for agent in agents] == [0, 0]
    assert [generation for generation, *_ in controller.restarts] == [2]
    assert "generation 1" in agents[0].output


def test_ranks_that_succeed_end_without_a_controller(bare, port, tmp_path):
    with serving(Controller(), port):
        agents = two(bare, port)
        agents[0].pid_of(0)
        agents[1].pid_of(2)
    (tmp_path / "end-1").touch()
    assert [agent.ends() for agent in agents] == [0, 0]


def test_a_failure_beyond_the_limits_ends_all_agents_with_its_code_and_message(bare, port, tmp_path):
    with serving(Controller(restarts_allowed=False), port):
        agents = two(bare, port, WINDLASS_TERMINATION_MESSAGE_PATH=str(tmp_path / "last-words"))
        os.kill(agents[1].pid_of(2), signal.SIGKILL)
        assert [agent.ends() for agent in agents] == [128 + 9, 128 + 9]
    assert "rank 2 (pid" in (tmp_path / "last-words").read_text()


def test_missing_output_is_a_hang_and_restarts_all(bare, port, tmp_path):
    for generation in range(2, 20):  # on a busy machine a start may take as long as silence may
        (tmp_path / f"end-{generation}").touch()
    with serving(controller := Controller(), port):
        agents = two(bare, port, "--hang", "silence=3")
        assert [agent.ends() for agent in agents] == [0, 0]
    assert controller.hangs[0][0] == -1
    assert controller.restarts[0][1].startswith("hang: no rank has printed anything for")


def test_a_wrong_controller_address_is_refused(bare):
    agent = bare("SCRIPT", script=WAITS, WINDLASS_CONTROLLER="nowhere")
    assert agent.ends() == 2
    assert "HOST:PORT" in agent.output
