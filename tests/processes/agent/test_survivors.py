"""Ranks that can take a new membership while they run survive the loss of others."""

import os
import signal
from pathlib import Path

from windlass import wire

SOURCE = str(Path(wire.__file__).parents[1])
REFORMS = """
import os, socket, sys, time
sys.path.insert(0, sys.argv[1])
from windlass import wire
rank, generation = int(os.environ["RANK"]), int(os.environ["WINDLASS_GENERATION"])
agent = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
agent.bind(f"{os.environ[wire.AGENT_SOCKET]}.{os.getpid()}")
def enter(generation, world):
    agent.sendto(wire.encode(wire.Hello(rank, generation, os.getpid(), reforms=True)), os.environ[wire.AGENT_SOCKET])
    print(f"rank {rank} generation {generation} pid {os.getpid()} world {world}", flush=True)
enter(generation, os.environ["WORLD_SIZE"])
agent.settimeout(0.05)
while not os.path.exists("enough"):
    try:
        message = wire.decode(agent.recv(65536))
    except TimeoutError:
        continue
    if len(sys.argv) == 2:
        enter(message.generation, sum(member.ranks for member in message.members))
"""


def test_a_killed_rank_is_replaced_beside_the_survivors(bare, tmp_path):
    agent = bare("--nproc-per-node=3", "--max-restarts=1", "SCRIPT", SOURCE, script=REFORMS)
    before = [agent.pid_of(rank) for rank in range(3)]
    os.kill(before[1], signal.SIGKILL)
    after = [agent.pid_of(rank, generation=2) for rank in range(3)]
    assert (after[0], after[2]) == (before[0], before[2])
    assert after[1] != before[1]
    agent.until(f"rank 1 (pid {before[1]}) killed by SIGKILL; generation 2 after 0.")
    (tmp_path / "enough").touch()
    assert agent.ends() == 0


def test_survivors_of_a_lost_node_go_on_without_it(bare, port, tmp_path):
    conf = "--rdzv-conf=last_call_timeout=30,keep_alive_interval=0.2,keep_alive_max_attempt=10"
    words = ["--nnodes=1:2", "--nproc-per-node=2", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", conf]
    agents = [bare(*words, "SCRIPT", SOURCE, script=REFORMS) for _ in range(2)]
    for agent in agents:
        agent.until("generation 1 pid", times=2)
    lost, other = sorted(agents, key=lambda agent: "rank 0 generation" in agent.output)
    lost.process.kill()
    assert other.pid_of(0, generation=2) == other.pid_of(0)
    assert other.until("world 2", times=2).count("generation 2 pid") == 2
    (tmp_path / "enough").touch()
    assert other.ends() == 0


def test_survivors_that_do_not_answer_in_time_restart_with_all(bare, tmp_path):
    agent = bare("--nproc-per-node=2", "--max-restarts=1", "SCRIPT", SOURCE, "deaf", script=REFORMS)
    pids = [agent.pid_of(rank) for rank in range(2)]
    os.kill(pids[1], signal.SIGKILL)
    agent.until("rank 0 generation 3 pid")
    assert "rank 0 is not in generation 2 after 5 s; generation 3 after" in agent.until("rank 1 generation 3 pid")
    (tmp_path / "enough").touch()
    assert agent.ends() == 0


def test_two_ranks_that_are_killed_together_use_one_restart(bare, tmp_path):
    agent = bare("--nproc-per-node=3", "--max-restarts=1", "SCRIPT", SOURCE, script=REFORMS)
    pids = [agent.pid_of(rank) for rank in range(3)]
    os.kill(pids[2], signal.SIGSTOP)
    os.kill(pids[1], signal.SIGKILL)
    agent.until("rank 1 generation 2 pid")
    os.kill(pids[2], signal.SIGKILL)
    agent.until(f"rank 2 (pid {pids[2]}) killed by SIGKILL; generation 3 after")
    for rank in range(3):
        agent.pid_of(rank, generation=3)
    (tmp_path / "enough").touch()
    assert agent.ends() == 0
