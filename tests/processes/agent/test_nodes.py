"""Agents of several nodes, here on one machine: rendezvous, lost nodes, recovery."""

import os
import signal

from elastic_run import WAITS, elastic, enough

SAVES = """
import os, signal, sys, time
def save(*_):
    time.sleep(1.5)
    print("saved in generation", os.environ["WINDLASS_GENERATION"], flush=True)
    sys.exit(83)
signal.signal(signal.SIGTERM, save)
"""


def test_the_run_survives_the_loss_of_node_0_and_takes_its_replacement_in(bare, port, tmp_path):
    agents = [bare(*elastic(port), script=WAITS) for _ in range(3)]
    for agent in agents:
        agent.until("generation 1 pid", times=2)
    first = next(agent for agent in agents if "rank 0 generation" in agent.output)
    others = [agent for agent in agents if agent is not first]
    first.process.kill()
    first.process.wait()
    for agent in others:
        agent.until("world 4", times=2)
        assert "generation 2 pid" in agent.output
        assert "the leading agent is lost" in agent.output
    newcomer = bare(*elastic(port), script=WAITS)
    newcomer.until("world 6", times=2)
    enough(tmp_path, newcomer, *others)
    assert all("world 6" in agent.output for agent in others)


def test_a_late_joiner_starts_a_new_generation_and_uses_no_restart(bare, port, tmp_path):
    early = bare(*elastic(port), script=WAITS)
    early.until("world 2", times=2)
    late = bare(*elastic(port), script=WAITS)
    late.until("world 4", times=2)
    assert "more nodes have come; generation 2 after" in early.until("generation 2 pid", times=2)
    enough(tmp_path, early, late)


def test_a_late_joiner_gives_the_others_time_to_save(bare, port, tmp_path):
    early = bare(*elastic(port), script=SAVES + WAITS)
    early.until("world 2", times=2)
    late = bare(*elastic(port), script=WAITS)
    late.until("world 4", times=2)
    assert early.output.count("saved in generation 1") == 2
    enough(tmp_path, early, late)


def test_a_rank_killed_on_one_node_restarts_all_and_all_print_the_reason(bare, port, tmp_path):
    agents = [bare(*elastic(port, "2"), script=WAITS) for _ in range(2)]
    owner = next(agent for agent in agents if "rank 3 generation" in agent.until("generation 1 pid", times=2))
    os.kill(owner.pid_of(3), signal.SIGKILL)
    for agent in agents:
        agent.until("killed by SIGKILL; generation 2 after")
        agent.until("generation 2 pid", times=2)
    enough(tmp_path, *agents)


def test_a_node_that_leaves_on_sigterm_is_not_waited_for(bare, port, tmp_path):
    agents = [bare(*elastic(port, "1:2"), script=WAITS) for _ in range(2)]
    for agent in agents:
        agent.until("generation 1 pid", times=2)
    leaving, staying = sorted(agents, key=lambda agent: "rank 0 generation" in agent.output)
    leaving.process.terminate()
    assert leaving.ends() == 128 + signal.SIGTERM
    staying.until("world 2", times=2)
    enough(tmp_path, staying)


def test_a_stopped_agent_is_lost_after_its_heartbeats_are_due_and_stops_its_ranks_when_it_wakes(bare, port, tmp_path):
    conf = {"keep_alive_max_attempt": 5}
    agents = [bare(*elastic(port, "1:2", **conf), script=WAITS) for _ in range(2)]
    for agent in agents:
        agent.until("generation 1 pid", times=2)
    stopped, other = sorted(agents, key=lambda agent: "rank 0 generation" in agent.output)
    os.kill(stopped.process.pid, signal.SIGSTOP)
    other.until("world 2", times=2)
    os.kill(stopped.process.pid, signal.SIGCONT)
    stopped.until("generation 3 pid", times=2)
    enough(tmp_path, stopped, other)


def test_static_rendezvous_numbers_ranks_by_node_rank(bare, port, tmp_path):
    def node(rank):
        words = ["--nnodes=2", f"--node-rank={rank}", "--master-addr=127.0.0.1", f"--master-port={port}"]
        return bare(*words, "--nproc-per-node=2", "SCRIPT", script=WAITS)

    second = node(1)
    first = node(0)
    assert "rank 3 generation" in second.until("world 4", times=2)
    assert "rank 0 generation" in first.until("world 4", times=2)
    enough(tmp_path, first, second)


def test_agents_of_another_run_are_turned_away(bare, port, tmp_path):
    agent = bare(*elastic(port, "1:2"), script=WAITS)
    agent.until("generation 1 pid", times=2)
    words = [word.replace("--rdzv-id=run", "--rdzv-id=other") for word in elastic(port, "1:2")]
    stranger = bare(*words, script=WAITS)
    assert stranger.ends() == 1
    assert "the agents at this endpoint belong to another run" in stranger.output
    assert "--rdzv-id=run" not in stranger.output
    enough(tmp_path, agent)


def test_an_agent_without_a_leader_gives_up(bare, port):
    lonely = bare(*elastic(port, "2", join_timeout=0.3), script=WAITS)
    assert lonely.ends() == 1
    assert "1 of at least 2 nodes have come in 0 s" in lonely.output
    conf = {"join_timeout": 0.3, "is_host": "false"}
    lost = bare(*elastic(port, "2", **conf), script=WAITS)
    assert lost.ends() == 1
    assert f"no agent leads this run at 127.0.0.1:{port}" in lost.output


def test_a_failed_run_fails_on_every_node(bare, port):
    script = "import os, sys\nsys.exit(int(os.environ['RANK'] == '3') * 85)"
    agents = [bare(*elastic(port, "2"), script=script) for _ in range(2)]
    assert [agent.ends() for agent in agents] == [85, 85]
    assert all("the run has failed: rank 3 (pid" in agent.output for agent in agents)
