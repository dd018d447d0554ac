"""Agents under a controller over TCP: real agents, and the operator's rendezvous without a cluster."""

import asyncio
import os
import signal
import socket
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

import strays
from windlass.backends.kubernetes.agents import agent_server
from windlass.backends.kubernetes.agents.messages import AgentPod
from windlass.backends.kubernetes.agents.rendezvous import Rendezvous, RendezvousCallbacks
from windlass.core.model.job import RestartPolicy
from windlass.server.operator.serving_certificate import make_certificate, server_context
from windlass.wire import CONTROLLER_NAME

PROOF, SECRET = "proof", "s" * 64
CERTIFICATE = make_certificate([CONTROLLER_NAME], datetime.now(UTC))
IDENTITY = {"WINDLASS_AGENT_TOKEN_FILE": "token", "WINDLASS_CONTROLLER_AUTHORITY": CERTIFICATE[0].decode()}
WAITS = """
import os, pathlib, time
rank, generation = os.environ["RANK"], os.environ["WINDLASS_GENERATION"]
print(f"rank {rank} of {os.environ['WORLD_SIZE']} meets at {os.environ['MASTER_PORT']}")
print(f"rank {rank} generation {generation} pid {os.getpid()}", flush=True)
while not pathlib.Path(f"end-{generation}").exists():
    time.sleep(0.02)
"""


@pytest.fixture(autouse=True)
def token(tmp_path):
    (tmp_path / "token").write_text(f"{PROOF}\n")


class Controller(agent_server.MessageHandler):
    """Leads the agents of the pods p0 and p1. `restarts_allowed`: whether ranks may start again."""

    def __init__(self, *, restarts_allowed=True):
        self.restarts_allowed, self.restarts, self.hangs = restarts_allowed, [], []
        self.rendezvous, self.connections, self.hellos = None, {}, []
        self.ended = []

    async def connect(self, hello, connection):
        self.hellos.append(hello)
        if hello["token"] != PROOF:
            return None
        clock = asyncio.get_running_loop().time
        if self.rendezvous is None:
            callbacks = RendezvousCallbacks(
                lambda _failed: self.restarts_allowed, lambda *restart: self.restarts.append(restart), self._hangs, list
            )
            policy = RestartPolicy(backoff_base=10)
            self.rendezvous = Rendezvous({"p0": 0, "p1": 1}, 1, callbacks, clock(), policy, SECRET)
        name = hello["name"].partition("/")[2]
        self.connections[connection] = name
        self.rendezvous.join(AgentPod(name, f"node-of-{name}", "127.0.0.1"), hello, connection, clock())
        return lambda message: self.rendezvous.receive(name, message, clock())

    def disconnect(self, connection):
        self.ended.append(connection)
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
def serving(controller, port, certificate=CERTIFICATE):
    """The controller answers at this port."""
    loop = asyncio.new_event_loop()
    tasks = []

    def run():
        asyncio.set_event_loop(loop)
        listener = socket.create_server(("127.0.0.1", port))
        task = loop.create_task(agent_server.serve(listener, controller, server_context(*certificate)))
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
    variables = {"WINDLASS_CONTROLLER": f"127.0.0.1:{port}", "PET_NPROC_PER_NODE": "2", **IDENTITY, **more}
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
    agent = bare("SCRIPT", script=WAITS, **{**IDENTITY, "WINDLASS_CONTROLLER": "nowhere"})
    assert agent.ends() == 2
    assert "HOST:PORT" in agent.output


@pytest.mark.parametrize("authority", ["", "no certificate", "ä"])
def test_a_controller_without_a_certificate_is_refused(bare, authority):
    variables = {"WINDLASS_CONTROLLER": "127.0.0.1:1", "WINDLASS_CONTROLLER_AUTHORITY": authority}
    agent = bare("SCRIPT", script=WAITS, **variables)
    assert agent.ends() == 2
    assert "WINDLASS_CONTROLLER=127.0.0.1:1 requires the controller's certificate" in agent.output


def test_ranks_share_the_secret_of_the_gang(bare, port, tmp_path):
    script = "import os\nopen('rank' + os.environ['RANK'], 'w').write(os.environ['WINDLASS_GANG_SECRET'])"
    with serving(Controller(), port):
        variables = {"WINDLASS_CONTROLLER": f"127.0.0.1:{port}", "PET_NPROC_PER_NODE": "2", **IDENTITY}
        agents = [bare("SCRIPT", script=script, WINDLASS_AGENT_NAME=f"team/p{at}", **variables) for at in (0, 1)]
        assert [agent.ends() for agent in agents] == [0, 0]
    assert [(tmp_path / f"rank{rank}").read_text() for rank in range(4)] == [SECRET] * 4
    assert all(SECRET not in agent.output for agent in agents)


def test_an_agent_sends_its_token_only_to_a_controller_with_the_right_certificate(bare, port, tmp_path):
    stranger = Controller()
    with serving(stranger, port, make_certificate([CONTROLLER_NAME], datetime.now(UTC))):
        agents = two(bare, port)
        give_up = time.monotonic() + strays.TIMEOUT_S
        while len(stranger.ended) < 4:  # each agent tries again
            assert time.monotonic() < give_up
            time.sleep(0.01)
    assert stranger.hellos == []
    (tmp_path / "end-1").touch()
    with serving(controller := Controller(), port):
        assert [agent.ends() for agent in agents] == [0, 0]
    assert {hello["name"] for hello in controller.hellos} == {"team/p0", "team/p1"}


def test_an_agent_reads_its_token_again_for_each_connection(bare, port, tmp_path):
    (tmp_path / "token").write_text("expired")
    (tmp_path / "end-1").touch()
    with serving(controller := Controller(), port):
        agents = two(bare, port)
        give_up = time.monotonic() + strays.TIMEOUT_S
        while len(controller.hellos) < 2:
            assert time.monotonic() < give_up
            time.sleep(0.01)
        (tmp_path / "token").write_text(PROOF)
        assert [agent.ends() for agent in agents] == [0, 0]
    assert {hello["token"] for hello in controller.hellos} == {"expired", PROOF}
