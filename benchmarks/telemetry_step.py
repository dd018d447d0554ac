"""CPU time that telemetry costs a training step on one rank: time of each of its calls × calls of a step.

A step of the training library enters six phases and reports once. The heartbeats go to a ring in shared memory, the
metrics once a second to an agent's socket, which this program opens and reads. On a GPU two events of
CUDA a phase come in addition, which are not measured here. The target is a thousandth of a step of 200 ms.
"""

import json
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from windlass import wire
from windlass.train.telemetry.heartbeat import HeartbeatSender
from windlass.train.telemetry.phase_timers import Phase, PhaseTimers
from windlass.train.telemetry.rank_metrics import RankMetrics

PHASES: tuple[Phase, ...] = ("data", "forward", "backward", "agree", "optimizer", "save")
STEPS, ROUNDS, STEP_MS = 2_000, 15, 200


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as agent:
        path = str(Path(folder, "agent"))
        agent.bind(path)
        environment = {**os.environ, wire.AGENT_SOCKET: path, wire.HEARTBEAT_RING: wire.RING_LAYOUT}
        heartbeat = HeartbeatSender(0, environment)
        timers = PhaseTimers(torch.device("cpu"), heartbeat.beat, heartbeat.mark)
        metrics = RankMetrics(timers, torch.device("cpu"))
        phases, counts = [], []
        for _ in range(ROUNDS):
            phases.append(microseconds(lambda: enter_phases(heartbeat, timers)))
            counts.append(microseconds(metrics.count))
        sent = [once(heartbeat, metrics, agent) for _ in range(ROUNDS)]
        metrics.close()
        heartbeat.close()
    step, count, report = (statistics.median(each) for each in (phases, counts, sent))
    spent_us = step + count + report * STEP_MS / 1000
    print(f"six phases {step:.1f} µs a step, count {count:.1f} µs, metrics {report:.0f} µs once a second")
    share = spent_us / (STEP_MS * 1000) * 100
    claim = f"telemetry of a step of {STEP_MS} ms, CPU"
    print(json.dumps({"claim": claim, "measured": share, "unit": "%", "target": 0.1}))


def enter_phases(heartbeat: HeartbeatSender, timers: PhaseTimers) -> None:
    heartbeat.step += 1
    for phase in PHASES:
        with timers.during(phase):
            pass
    timers.drain()


def once(heartbeat: HeartbeatSender, metrics: RankMetrics, agent: socket.socket) -> float:
    """Microseconds of the metrics that a rank computes and sends once a second."""
    time.sleep(1.05)
    begin = time.process_time()
    assert metrics.count()
    heartbeat.send_metrics(metrics.values)
    spent = (time.process_time() - begin) * 1e6
    agent.recv(1 << 16)
    return spent


def microseconds(call: Callable[[], object]) -> float:
    """Microseconds of one of many calls."""
    begin = time.process_time()
    for _ in range(STEPS):
        call()
    return (time.process_time() - begin) / STEPS * 1e6


if __name__ == "__main__":
    main()
