"""Agents injected into pods whose image lacks Windlass, led by the operator, on two real nodes."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from e2e.user import IMAGE, User, processes_of, until

pytestmark = [pytest.mark.timeout(600), pytest.mark.real_nodes]
PYTHON = "/usr/bin/python3"
"""Of the image, without torch and without Windlass."""
BEATS = """
import importlib.util, json, os, socket, time
assert importlib.util.find_spec("windlass") is None, "this image has Windlass"
rank, generation = int(os.environ["RANK"]), int(os.environ["WINDLASS_GENERATION"])
print(f"rank {rank} of {os.environ['WORLD_SIZE']} generation {generation}", flush=True)
agent = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)

def tell(what, **fields):
    message = {"type": what, "rank": rank, "generation": generation, **fields}
    agent.sendto(json.dumps(message).encode(), os.environ["WINDLASS_AGENT_SOCKET"])

# The first generation goes on until a rank is killed, the second until one hangs, the third ends.
for step in range(100_000 if generation < 3 else 10):
    tell("heartbeat", step=step, phase="forward", beat=step)
    if rank == 0:
        tell("telemetry", step=step, values={"loss": 2.5, "samples_per_second": 78.0, "step_ms": 50.0})
    while generation == 2 and rank == 3 and step == 40:
        time.sleep(1)
    time.sleep(0.05)
"""


def beats() -> dict[str, Any]:
    """Two pods of two ranks, one on each node. They run as the user `nobody`, and their image is read-only."""
    safe = {"readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False}
    main = {"name": "main", "securityContext": safe, "volumeMounts": [{"name": "script", "mountPath": "/code"}]}
    pod = {
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65534},
        "containers": [main],
        "volumes": [{"name": "script", "configMap": {"name": "script"}}],
    }
    spec = {
        "agent": "inject",
        "image": IMAGE,
        "command": [PYTHON, "/code/beats.py"],
        "env": {"WINDLASS_HANG": "floor=3"},
        "nodes": 2,
        "procs": 2,
        "gpus": 2,
        "restarts": 1,
        "grace": "2s",
        "pod": {"spec": pod},
    }
    return {"apiVersion": "windlass.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "beats"}, "spec": spec}


def runs(user: User, pod: int, rank: int, generation: int) -> bool:
    """Whether a rank of a pod has printed this."""
    return f"rank {rank} of 4 generation {generation}" in user.log(f"beats-worker-{pod}")


def event_notes(user: User, reason: str) -> list[str]:
    """The events of a reason."""
    return [note for found, note in user.events("TrainingJob/beats") if found == reason]


def recoveries(user: User) -> int:
    return int(user.status("trainingjobs/beats").get("recoveries", 0))


def test_a_killed_or_hanging_rank_restarts_in_the_same_pods(user: User, tmp_path: Path) -> None:
    (tmp_path / "beats.py").write_text(BEATS)
    user.kubectl("create", "configmap", "script", f"--from-file={tmp_path / 'beats.py'}")
    user.apply(beats())
    until("all ranks to run", lambda: user.running(1, 2) and runs(user, 0, 0, 1) and runs(user, 1, 3, 1))
    pods = user.pods(1)

    # 1. a rank is killed: the last process that its pod has started
    os.kill(processes_of(pods[1])[-1], signal.SIGKILL)
    until("the second generation", lambda: runs(user, 0, 0, 2))
    until("the recovery to be counted", lambda: recoveries(user) == 1)
    (note,) = event_notes(user, "Recovered")
    assert "killed by SIGKILL in beats-worker-1, back after" in note
    status = user.status("trainingjobs/beats")
    assert (status["state"], status["attempts"], status["failures"]["infrastructure"]) == ("Running", 1, 1)
    measured = until("what ranks measure", lambda: user.status("trainingjobs/beats").get("training", {}).get("loss"))
    assert measured == 2.5

    # 2. a rank hangs
    until("the third generation", lambda: runs(user, 0, 0, 3))
    (note,) = event_notes(user, "Hang")
    node = pods[1]["spec"]["nodeName"]
    assert f"beats-worker-1 on node {node}: rank 3 is in forward of step 40 for" in note

    # 3. the job succeeds in the same pods
    until("the job to succeed", lambda: user.ended("trainingjobs/beats"))
    status = user.status("trainingjobs/beats")
    assert (status["attempts"], status["recoveries"]) == (1, 2)
    assert status["failures"] == {"user": 1, "infrastructure": 1, "preemption": 0}
    assert [pod["metadata"]["uid"] for pod in user.pods(1)] == [pod["metadata"]["uid"] for pod in pods]
    assert {each["restartCount"] for pod in user.pods(1) for each in pod["status"]["containerStatuses"]} == {0}
