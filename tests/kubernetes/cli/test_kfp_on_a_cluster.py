"""A gang step of kfp on a real API server: real containers run its job, and the step reports metrics and its output."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from operator_account import LEASE
from pipeline_programs import pipeline_environment, python_path

from windlass.controlplane.real_nodes import RealCluster

from .operator_process import leading_operator

IMAGE = "example.com/job:1"
PROGRAM = """\
from kfp import dsl, local
from windlass.plugins.kfp_component import windlass_gang

JOB = {"name": "step", "nodes": 2, "image": IMAGE, "command": "echo rank $RANK loss 0.25 to $WINDLASS_OUTPUT"}

@dsl.pipeline(name="one")
def one(job: dict, texts: dict) -> dsl.Metrics:
    return windlass_gang(job=job, metric_texts=texts, target="kubernetes").outputs["metrics"]

local.init(runner=local.SubprocessRunner(use_venv=False), pipeline_root="runs")
print("metrics", one(job=JOB, texts={"loss": "loss "}).output.metadata)
"""


@pytest.mark.real_nodes
@pytest.mark.timeout(600)
def test_a_step_of_kfp_runs_a_gang_and_reports_it(real_nodes: RealCluster, tmp_path: Path):
    python = pipeline_environment() / "bin/python"
    (tmp_path / "step.py").write_text(f"IMAGE = {IMAGE!r}\n{PROGRAM}")
    real_nodes.know_images(IMAGE)
    plane = real_nodes.plane
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}
    of_cluster = {"KUBECONFIG": str(plane.kubeconfig), "WINDLASS_OPERATOR": f"default/{LEASE}"}
    env = {**kept, **of_cluster, "PYTHONPATH": python_path(tmp_path / "metadata"), "HOME": str(tmp_path)}

    async def story() -> str:
        async with leading_operator(plane):
            streams = {"stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.STDOUT}
            step = await asyncio.create_subprocess_exec(python, "step.py", cwd=tmp_path, env=env, **streams)
            printed, _ = await step.communicate()
            assert step.returncode == 0, printed.decode()
            return printed.decode()

    printed = asyncio.run(story())
    line = next(line for line in printed.splitlines() if line.startswith("metrics "))
    assert "'loss': 0.25" in line
    assert "'attempts': 1.0" in line
    assert {f"[r{rank}] rank {rank} loss 0.25 to" in printed for rank in (0, 1)} == {True}
    assert "/windlass-gang/output" in printed
