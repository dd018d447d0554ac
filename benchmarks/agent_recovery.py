"""Time from the loss of a rank or of node 0 to the next step: `windlass agent` beside torchrun and torchft.

Three nodes of one rank, all on this machine, `--nnodes 1:3`: torchrun's elastic mode, with its defaults and tuned.
torchrun with its defaults does not recover within a minute (pytorch#135712): the table then says 60. The loss of its
node 0 ends its job. Of torchft (three replicas; one is lost after 0.5 s without a heartbeat) the survivors' next step
is measured.
"""

import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from peers import torchft

ROUNDS, NODES, LIMIT = 2, 3, 60.0
TUNED = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
QUICK = "last_call_timeout=10,keep_alive_interval=1,keep_alive_max_attempt=2"
SCRIPT = """
import os, sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
while True:
    dist.all_reduce(torch.ones(1))
    line = f"{dist.get_rank()} {os.getpid()} {dist.get_world_size()} {time.monotonic()}\\n"
    os.write(log, line.encode())
    time.sleep(0.02)
"""

TRAINING = """
import os, sys, time, torch
from windlass import train
log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
with train.init(report_every=0) as run:
    model, optimizer = run.parallelize(lambda: torch.nn.Linear(64, 64), lr=1e-3)
    data = run.data([(torch.ones(64), torch.ones(64))] * 120, global_batch=12)
    for batch in run.steps(data, 10**9):
        loss = run.backward(model, batch, torch.nn.functional.mse_loss)
        run.step(optimizer, loss=loss)
        if loss.isfinite():
            line = f"{run.world.rank} {os.getpid()} {run.world.size} {time.monotonic()}\\n"
            os.write(log, line.encode())
        time.sleep(0.02)
"""
"""The same with `windlass.train`: surviving ranks continue in the same process."""


def main() -> None:
    agent, torchrun = "windlass.agent", "torch.distributed.run"
    ours = [after_a_killed_rank(agent, {}, "") for _ in range(ROUNDS)]
    trained = [after_a_killed_rank(agent, {}, "", TRAINING) for _ in range(ROUNDS)]
    left = [without_a_node(agent) for _ in range(ROUNDS)]
    tuned = [after_a_killed_rank(torchrun, TUNED, QUICK) for _ in range(ROUNDS)]
    default = [after_a_killed_rank(torchrun, {}, "")]
    lost = [after_a_lost_node(agent) for _ in range(ROUNDS)]
    installed = torchft.folder()
    survivors = [without_a_replica(installed) for _ in range(ROUNDS)] if installed else []
    print(f"rank killed: windlass agent {summary(ours)}, with windlass.train {summary(trained)}")
    print(f"             torchrun tuned {summary(tuned)}; torchrun {summary(default)}")
    print(f"node 0 lost: windlass agent {summary(lost)}; torchrun ends")
    claim("rank killed → next step with a respawned rank", ours, 3.0, ("torchrun, tuned", tuned))
    claim("the same, against torchrun with its defaults", ours, 3.0, ("torchrun", default))
    claim("the same, with windlass.train, other ranks continue in place", trained, 3.0, ("torchrun, tuned", tuned))
    if survivors:
        claim("a node's rank killed → next step on survivors", left, 0.5, ("torchft", survivors))
    else:
        claim("a node's rank killed → next step on survivors", left, 0.5)
        print(f"not measured: torchft {torchft.VERSION} is not installed and could not be")
    claim("node 0 lost (agent and ranks) → next step", lost, 5.0)


def after_a_killed_rank(module: str, env: Mapping[str, str], conf: str, script: str = SCRIPT) -> float:
    """Seconds from SIGKILL of rank 1 to the first step of a restarted rank."""
    with job(module, env, conf, script) as (_, log):
        before = running(log)
        begin = time.monotonic()
        os.kill(before[1], signal.SIGKILL)
        return first_step(log, begin, set(before.values())) - begin


def after_a_lost_node(module: str) -> float:
    """The same, from SIGKILL of the first agent and its rank."""
    with job(module, {}, "") as (agents, log):
        before = running(log)
        begin = time.monotonic()
        for pid in (agents[0].pid, before[0]):
            os.kill(pid, signal.SIGKILL)
        return first_step(log, begin, set(before.values())) - begin


def without_a_node(module: str) -> float:
    """Seconds from SIGKILL of the last agent and its rank to the first step of the other two ranks."""
    with job(module, {}, "", TRAINING) as (agents, log):
        before = running(log)
        begin = time.monotonic()
        for pid in (agents[-1].pid, before[NODES - 1]):
            os.kill(pid, signal.SIGKILL)
        return step_of_fewer(log, begin) - begin


def without_a_replica(installed: Path) -> float:
    """Seconds from SIGKILL of torchft's second replica to the first step of the two others."""
    with torchft.replicas(NODES, installed) as log:
        before = running(log)
        begin = time.monotonic()
        os.kill(before[1], signal.SIGKILL)
        return step_of_fewer(log, begin) - begin


@contextmanager
def job(
    module: str, env: Mapping[str, str], conf: str, text: str = SCRIPT
) -> Iterator[tuple[list[subprocess.Popen[bytes]], Path]]:
    with tempfile.TemporaryDirectory() as folder:
        script, log = Path(folder, "train.py"), Path(folder, "steps")
        script.write_text(text)
        log.touch()
        words = [
            f"--nnodes=1:{NODES}",
            "--max-restarts=3",
            "--rdzv-backend=c10d",
            f"--rdzv-endpoint=localhost:{port()}",
        ]
        command = [sys.executable, "-m", module, *words, f"--rdzv-conf={conf}", str(script), str(log)]
        agents = []
        for _ in range(NODES):  # the first one is node 0
            env_of_agent = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": folder, **env}
            agents.append(
                subprocess.Popen(command, env=env_of_agent, stderr=subprocess.DEVNULL, start_new_session=True)
            )
            time.sleep(0.5)
        try:
            yield agents, log
        finally:
            end(agents, folder)


def end(agents: list[subprocess.Popen[bytes]], folder: str) -> None:
    """Kills the agents, and the ranks that torchrun's agents leave behind."""
    for agent in agents:
        agent.kill()
        agent.wait()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and folder.encode() in (entry / "cmdline").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)
        except OSError:
            continue


def steps(log: Path) -> list[tuple[int, int, int, float]]:
    """(rank, pid, number of ranks, time) of each step of each rank so far."""
    whole = [line.split() for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return [(int(rank), int(pid), int(world), float(when)) for rank, pid, world, when in whole]


def running(log: Path) -> dict[int, int]:
    """Rank → pid, once all ranks have trained for a second."""
    until = time.monotonic() + LIMIT
    while not (begun := [when for _, _, world, when in steps(log) if world == NODES]) or begun[-1] < begun[0] + 1:
        if time.monotonic() > until:
            sys.exit(f"the {NODES} nodes have not formed a group within {LIMIT:.0f} s")
        time.sleep(0.05)
    return {rank: pid for rank, pid, world, _ in steps(log) if world == NODES}


def first_step(log: Path, begin: float, before: set[int]) -> float:
    while time.monotonic() < begin + LIMIT:
        new = [when for _, pid, _, when in steps(log) if pid not in before and when > begin]
        if new:
            return new[0]
        time.sleep(0.02)
    return begin + LIMIT


def step_of_fewer(log: Path, begin: float) -> float:
    """Time of the first step of the remaining ranks among themselves."""
    while time.monotonic() < begin + LIMIT:
        if new := [when for _, _, world, when in steps(log) if world == NODES - 1 and when > begin]:
            return new[0]
        time.sleep(0.02)
    return begin + LIMIT


def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def summary(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.2f} s ({' '.join(f'{s:.2f}' for s in seconds)})"


def claim(what: str, measured: list[float], target: float, peer: tuple[str, list[float]] | None = None) -> None:
    line = {"claim": what, "measured": statistics.median(measured), "unit": "s", "target": target}
    if peer is not None:
        line |= {"peer": peer[0], "peer_measured": statistics.median(peer[1])}
    print(json.dumps(line))


if __name__ == "__main__":
    main()
