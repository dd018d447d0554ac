"""A rank that fails ends its process, also where a collective of another rank never returns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from forked_ranks import ForkedScript

from windlass import wire
from windlass.controlplane.processes import free_port

SCRIPT = f"""
import os, signal, sys, threading, time
os.environ |= dict(zip(("RANK", "LOCAL_RANK", "MASTER_PORT", "{wire.ERROR_FILE}"), sys.argv[1:]))
os.environ |= {{"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "{wire.EXIT_TIMEOUT}": "1"}}
import torch
import torch.distributed as dist
from windlass import train

stops = sys.argv[5] == "stopped"
with train.init(report_every=0) as run:
    own = dist.new_group(backend="gloo")
    pids = [None, None]
    dist.all_gather_object(pids, os.getpid())
    if run.world.rank == 0:  # it also hosts the store
        os.kill(os.getpid(), signal.SIGSTOP if stops else signal.SIGCONT)
        signal.pause()
    while stops and open(f"/proc/{{pids[0]}}/stat").read().rpartition(")")[2].split()[0] != "T":
        time.sleep(0.01)
    threading.Thread(target=dist.all_reduce, args=(torch.ones(1),), kwargs={{"group": own}}).start()
    os.dup2(1, 2)
    print("the last output", end="")
    raise ValueError("this sample is bad")
"""


@pytest.fixture
def ranks(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[list[ForkedScript]]:
    """Two ranks: the first never takes part in the collective, in which a thread of the second waits."""
    script, port = tmp_path / "script.py", free_port()
    script.write_text(SCRIPT)
    running = [
        ForkedScript(script, rank, rank, port, tmp_path / f"error{rank}", request.param, cwd=tmp_path)
        for rank in range(2)
    ]
    yield running
    for rank in running:
        rank.kill()


@pytest.mark.parametrize("ranks", ["stopped", "silent"], indirect=True)
def test_a_failed_rank_ends_while_a_collective_never_returns(ranks: list[ForkedScript], tmp_path: Path):
    waits, fails = ranks
    fails.process.join(60)
    assert fails.process.exitcode == 1
    output = fails.output.read()
    assert "the last output" in output
    assert "ValueError: this sample is bad" in output
    error = json.loads((tmp_path / "error1").read_text())["message"]
    assert error["message"] == "ValueError: this sample is bad"
    assert waits.process.is_alive()
