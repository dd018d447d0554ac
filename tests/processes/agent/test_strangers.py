"""Processes without the secret of a run: connections to its agents, and answers in the place of its leader."""

import contextlib
import json
import socket
import threading
from pathlib import Path

import pytest
from elastic_run import WAITS, elastic, enough

from windlass import wire

SECRET = "5f" * 32
PEER = {"id": "stranger", "node": "there", "address": "127.0.0.1", "port": 1, "ranks": 2, "place": -1, "generation": 0}
ATTACKS = {
    "the end of the run": {"type": "close", "code": 0, "reason": "all ranks have succeeded"},
    "a join request with the right run id": {"type": "hello", "run": "run", "peer": PEER},
    "a newer leader": {"type": "lead", "run": "run", "generation": 99, "id": "z", "host": "127.0.0.1", "port": 1},
    "an end of ranks": {"type": "succeeded", "agent_id": "stranger", "generation": 1},
}


def exchange(port, *lines):
    """Everything that the agent at this port answers to a stranger until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as link, contextlib.suppress(ConnectionError):
        for line in lines:
            link.sendall(line + b"\n")
        return b"".join(iter(lambda: link.recv(65536), b""))
    return b""


def ports_of(*agents):
    """TCP ports on which these agents listen."""
    listening = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        rows = [line.split() for line in Path(table).read_text(encoding="ascii").splitlines()[1:]]
        listening |= {f"socket:[{row[9]}]": int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A"}
    found = set()
    for agent in agents:
        for descriptor in Path(f"/proc/{agent.process.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(listening.get(str(descriptor.readlink()), 0))
    return sorted(found - {0})


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_stranger_cannot_command_the_agents_of_a_run(bare, port, tmp_path, attack):
    agents = [bare(*elastic(port, "2"), script=WAITS, WINDLASS_GANG_SECRET=SECRET) for _ in range(2)]
    for agent in agents:
        agent.until("generation 1 pid", times=2)
    ports = ports_of(*agents)
    assert len(ports) == 3  # the endpoint, and a port of each agent
    command = json.dumps(ATTACKS[attack]).encode()
    challenge = b"windlass-agent-1 " + b"0" * 64
    for each in ports:
        for lines in ([command], [challenge, command], [challenge, b"0" * 64 + b" " + command]):
            answer = exchange(each, *lines)
            assert answer.count(b"\n") <= 1  # its challenge alone: no reason, no run id
            assert answer.startswith(b"windlass-agent-1 ") or not answer
    assert all(agent.process.poll() is None for agent in agents)
    enough(tmp_path, *agents)
    assert all("generation 2" not in agent.output for agent in agents)


def test_a_recorded_connection_cannot_be_replayed(bare, port, tmp_path):
    """A stranger that relays the connection of an agent records it, and sends the same bytes again."""
    with socket.create_server(("127.0.0.1", 0)) as relay:
        recorded = bytearray()
        threading.Thread(target=relay_once, args=(relay, port, recorded), daemon=True).start()
        first = bare(*elastic(port, "1:2"), script=WAITS, WINDLASS_GANG_SECRET=SECRET)
        first.until("generation 1 pid", times=2)
        behind_relay = elastic(relay.getsockname()[1], "1:2", is_host="false")
        second = bare(*behind_relay, script=WAITS, WINDLASS_GANG_SECRET=SECRET)
        second.until("world 4", times=2)
    assert b'"type": "hello"' in recorded
    answer = exchange(port, *bytes(recorded).splitlines())
    assert answer.count(b"\n") <= 1
    enough(tmp_path, first, second)


def relay_once(relay, port, recorded):
    """Relays connections to the agent at this port; records what the first one sends."""
    while True:
        try:
            link, _ = relay.accept()
        except OSError:
            return
        target = socket.create_connection(("127.0.0.1", port))
        threading.Thread(target=copy, args=(link, target, recorded), daemon=True).start()
        threading.Thread(target=copy, args=(target, link, bytearray()), daemon=True).start()


def copy(source, target, recorded):
    with contextlib.suppress(OSError):
        for data in iter(lambda: source.recv(65536), b""):
            recorded += data
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def test_a_stranger_that_answers_in_the_place_of_the_leader_ends_no_agent(bare, port, tmp_path):
    """The stranger listens at the endpoint first; the agents go on looking, and meet when it is gone."""
    orders = [json.dumps(each).encode() for each in (ATTACKS["the end of the run"], {"type": "refused", "reason": "x"})]
    with socket.create_server(("127.0.0.1", port), reuse_port=False) as listener:
        asked = threading.Event()

        def answer():
            with contextlib.suppress(OSError):
                for _ in range(6):
                    link, _ = listener.accept()
                    with link, contextlib.suppress(OSError):
                        link.sendall(b"windlass-agent-1 " + b"0" * 64 + b"\n" + b"\n".join(orders) + b"\n")
                        link.recv(65536)
            asked.set()

        threading.Thread(target=answer, daemon=True).start()
        agents = [bare(*elastic(port, "2"), script=WAITS, WINDLASS_GANG_SECRET=SECRET) for _ in range(2)]
        assert asked.wait(60)
        listener.shutdown(socket.SHUT_RDWR)
    for agent in agents:
        agent.until("world 4", times=2)
        assert agent.output.count("has proved the secret of this run yet") == 1
    enough(tmp_path, *agents)


def test_silent_strangers_keep_no_agent_out_and_are_closed(bare, port, tmp_path):
    first = bare(*elastic(port, "1:2"), script=WAITS, WINDLASS_GANG_SECRET=SECRET)
    first.until("generation 1 pid", times=2)
    with contextlib.ExitStack() as links:
        silent = [links.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20)) for _ in range(100)]
        second = bare(*elastic(port, "1:2"), script=WAITS, WINDLASS_GANG_SECRET=SECRET)
        second.until("world 4", times=2)
        for link in silent:
            with contextlib.suppress(ConnectionResetError):
                assert b"\n" in b"".join(iter(lambda: link.recv(65536), b""))  # noqa: B023 - called in this iteration
        with socket.create_connection(("127.0.0.1", port), timeout=20) as link, contextlib.suppress(ConnectionError):
            link.sendall(b"x" * 100_000)  # one line without an end
            assert link.recv(65536).count(b"\n") == 1
            assert not link.recv(65536)
    enough(tmp_path, first, second)


def test_an_agent_with_another_secret_does_not_join(bare, port, tmp_path):
    agent = bare(*elastic(port, "1:2"), script=WAITS, WINDLASS_GANG_SECRET=SECRET)
    agent.until("generation 1 pid", times=2)
    other = bare(*elastic(port, "1:2", join_timeout=2), script=WAITS, WINDLASS_GANG_SECRET=SECRET[::-1])
    assert other.ends() == 1
    assert "no process that answers has proved the secret of this run yet" in other.output
    assert SECRET not in agent.output + other.output
    enough(tmp_path, agent)
    assert "generation 2" not in agent.output


def test_a_run_without_a_secret_warns_once(bare, port, tmp_path):
    agents = [bare(*elastic(port, "2"), script=WAITS) for _ in range(2)]
    for agent in agents:
        agent.until("world 4", times=2)
        assert agent.output.count("without WINDLASS_GANG_SECRET any process") == 1
    enough(tmp_path, *agents)


def test_a_short_secret_is_refused(bare, port):
    agent = bare(*elastic(port, "2"), script=WAITS, **{wire.GANG_SECRET: "guess"})
    assert agent.ends() == 2
    assert "WINDLASS_GANG_SECRET has 5 characters: at least 32, as from `openssl rand -hex 32`" in agent.output
    assert "guess" not in agent.output
