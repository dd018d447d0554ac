"""`windlass metrics` of real runs: recorded while the job runs, and read after its end without a daemon."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from pathlib import Path

from terminal import facts, windlass

TRAINING = """
import time
import torch
from windlass import train

with train.init() as run:
    model, optimizer = run.parallelize(lambda: torch.nn.Linear(8, 1), optimizer=torch.optim.SGD, lr=0.01)
    dataset = torch.utils.data.TensorDataset(torch.ones(4096, 8), torch.zeros(4096, 1))
    data = run.data(dataset, global_batch=4)
    checkpoints = run.checkpoint("", run.state(model, optimizer, data), every="20 steps")
    for batch in checkpoints.steps(120):
        time.sleep(0.05)
        loss = run.backward(model, batch, torch.nn.functional.mse_loss)
        run.step(optimizer, loss=loss)
"""


def test_telemetry_of_a_run_is_read_after_its_end(state: Path, tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(TRAINING)
    assert windlass(state, "run", "--name", "lesson", "-N", "2", "--", sys.executable, str(script)).returncode == 0
    (job,) = facts(state, "history")

    shown = windlass(state, "metrics", job["id"])
    assert "windlass_job_step_seconds" in shown.stdout
    found = json.loads(windlass(state, "metrics", job["id"], "-o", "json").stdout)["series"]
    series = {each["series"]: each for each in found}
    assert series["windlass_job_step"]["values"][-1] > 20
    assert 0.05 < series["windlass_job_step_seconds"]["values"][-1] < 5
    ages = series["windlass_job_checkpoint_age_seconds"]["values"]
    assert 0 <= ages[-1] < 30, ages
    assert series["windlass_job_step"]["times"] == sorted(series["windlass_job_step"]["times"])

    listed = windlass(state, "metrics", job["id"], "-m", "rank_busy", "--rank", "0", "--rank", "1", "-o", "csv")
    rows = list(csv.reader(io.StringIO(listed.stdout)))
    assert rows[0] == ["time", 'windlass_rank_busy_seconds{rank="0"}', 'windlass_rank_busy_seconds{rank="1"}']
    assert float(rows[-1][1]) > 0.04
    assert "windlass_job_step_seconds" in windlass(state, "metrics", job["id"], "-m", "step_s*", "-o", "plot").stdout

    scraped = windlass(state, "metrics", "-o", "prometheus").stdout
    (used,) = re.findall(r'windlass_node_memory_used_bytes\{node="n1"\} (\S+)', scraped)
    assert float(used) > 10e6
    assert f'windlass_job_step{{job_id="{job["id"]}"}}' in scraped
    assert "windlass_nodes 1" in scraped.splitlines()
    assert "windlass_rank_" not in scraped
    of_rank = f'windlass_rank_busy_seconds{{job_id="{job["id"]}",rank="1"}}'
    assert of_rank in windlass(state, "metrics", "-o", "prometheus", "--per-rank").stdout


def test_the_series_of_a_node_are_read_in_every_format(state: Path):
    assert windlass(state, "run", "--local-nodes", "2", "--", "sleep", "7").returncode == 0
    assert "windlass_node_memory_used_bytes" in windlass(state, "metrics", "--node", "n1").stdout
    found = json.loads(windlass(state, "metrics", "--node", "n2", "-m", "memory", "-o", "json").stdout)
    (memory,) = found["series"]
    assert (found["node"], memory["unit"], min(memory["values"]) > 10e6) == ("n2", "By", True)
    listed = windlass(state, "metrics", "--node", "n1", "-m", "cpu", "--since", "1h", "-o", "csv").stdout
    assert listed.splitlines()[0] == "time,windlass_node_cpu_utilization_ratio"
    assert len(listed.splitlines()) >= 2
    assert "memory" in windlass(state, "metrics", "--node", "n1", "-m", "memory", "-o", "plot").stdout

    refused = windlass(state, "metrics", "--node", "n7")
    assert refused.returncode == 2
    assert "nothing is recorded of a node 'n7'" in refused.stderr
    assert "name one of n1, n2" in refused.stderr
    completed = {"COMP_WORDS": "windlass metrics --node n", "COMP_CWORD": "3", "_WINDLASS_COMPLETE": "complete_bash"}
    assert windlass(state, "metrics", env=completed).stdout.split() == ["n1", "n2"]


def test_a_job_is_named_for_every_format_but_that_of_prometheus(state: Path):
    refused = windlass(state, "metrics")
    assert (refused.returncode, "which job?" in refused.stderr) == (2, True)
    refused = windlass(state, "metrics", "digits", "-o", "prometheus")
    assert (refused.returncode, "leave digits out" in refused.stderr) == (2, True)
    refused = windlass(state, "metrics", "digits", "--per-rank")
    assert (refused.returncode, "choose ranks with --rank N" in refused.stderr) == (2, True)
    refused = windlass(state, "metrics", "digits", "--node", "n1")
    assert (refused.returncode, "leave one of them out" in refused.stderr) == (2, True)
    refused = windlass(state, "metrics", "--node", "n1", "--rank", "0")
    assert (refused.returncode, "--node NODE --gpu N" in refused.stderr) == (2, True)


def test_a_metric_that_is_not_there_is_said_with_the_way_to_list_all(state: Path):
    assert windlass(state, "run", "--name", "short", "--", "sleep", "3").returncode == 0
    (job,) = facts(state, "history")
    refused = windlass(state, "metrics", job["id"], "-m", "temperature")
    assert refused.returncode == 2
    assert f"has no metric like temperature\nlist all: windlass metrics {job['id']}" in refused.stderr


def test_a_damaged_store_is_set_aside_and_the_job_runs(state: Path):
    state.mkdir(mode=0o700, exist_ok=True)
    (state / "telemetry.db").write_bytes(b"damaged" * 1000)
    ran = windlass(state, "run", "--name", "robust", "--", "sleep", "4")
    assert ran.returncode == 0
    assert "telemetry starts anew" in ran.stderr
    assert (state / "telemetry.damaged").exists()
