"""Verbs that access pods on nodes that run real containers: shipped code, logs and exec."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from operator_account import LEASE

import strays
from windlass.controlplane.real_nodes import RealCluster

from .cluster_terminal import Terminal
from .operator_process import leading_operator

pytestmark = [pytest.mark.real_nodes, pytest.mark.timeout(400)]
IMAGE = ("--image", "example.com/job:1")
TRAIN = """\
import os, sys
from model import NAME
rank, generation = os.environ["RANK"], os.environ["WINDLASS_GENERATION"]
print(f"{NAME} attempt {generation} rank {rank} of {os.environ['WORLD_SIZE']}", flush=True)
sys.exit(5 if (generation, rank) == ("1", "1") else 0)
"""


def test_a_folder_is_shipped_run_and_inspected(real_nodes: RealCluster, tmp_path: Path):
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "model.py").write_text("NAME = 'digits'\n")
    real_nodes.know_images("example.com/job:1")
    plane = real_nodes.plane

    async def story() -> None:
        windlass = Terminal(plane.kubeconfig, tmp_path, f"default/{LEASE}")
        async with leading_operator(plane):
            await it_is_run_over_a_restart_and_its_logs_are_kept(windlass)
            await a_command_runs_inside_of_a_rank(windlass)
            await pods_are_held_for_a_command(windlass)

    asyncio.run(story())


async def it_is_run_over_a_restart_and_its_logs_are_kept(windlass: Terminal) -> None:
    words = ("-N", "2", "--restarts", "1", "--ship", ".", "--name", "digits", "--", "python", "train.py")
    ran = await windlass("run", *IMAGE, *words)

    assert ran.code == 0, ran
    lines = {line.partition("] ")[2] for line in ran.out.splitlines()}
    assert {f"digits attempt 2 rank {rank} of 2" for rank in (0, 1)} <= lines
    assert "generation 1 failed" in ran.err
    assert "digits attempt 2 rank 0 of 2" in await windlass.done("logs", "digits", "--rank", "0", "--bare")
    assert "digits attempt 1 rank 1 of 2" in await windlass.done("logs", "digits", "--attempt", "1")


async def a_command_runs_inside_of_a_rank(windlass: Terminal) -> None:
    async with windlass.began("run", *IMAGE, "--name", "held", "--", "sh", "-c", "echo ready; sleep 300") as process:
        assert process.stdout is not None
        await asyncio.wait_for(process.stdout.readline(), strays.TIMEOUT_S * 3)

        ran = await windlass("exec", "held", "--", "sh", "-c", "echo rank $RANK; cat; exit 6", given=b"from here\n")
        missing = await windlass("exec", "held", "--rank", "7", "--", "true")

        assert (ran.code, ran.out) == (6, "rank 0\nfrom here\n"), ran
        assert missing.code == 5
        await windlass.done("cancel", "held", "--now")
        assert await asyncio.wait_for(process.wait(), strays.TIMEOUT_S * 3) == 130


async def pods_are_held_for_a_command(windlass: Terminal) -> None:
    ran = await windlass("alloc", *IMAGE, "-N", "2", "--", "sh", "-c", "echo world of $WORLD_SIZE; exit 4")

    assert ran.code == 4, ran
    assert ran.out == "world of 2\n"
    assert "exit releases them" in ran.err
