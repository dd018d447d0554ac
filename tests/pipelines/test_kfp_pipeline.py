"""The sample pipeline with kfp itself: compiled, run by kfp's local runner on a daemon, and stopped."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

import windlass

ROOT = Path(__file__).parents[2]
PIPELINE = ROOT / "examples/pipelines/digits_pipeline.py"
ONE_STEP = """\
from kfp import dsl, local
from windlass.plugins.kfp_component import windlass_gang

@dsl.pipeline(name="one")
def one(job: dict, texts: dict) -> dsl.Metrics:
    return windlass_gang(job=job, metric_texts=texts).outputs["metrics"]

local.init(runner=local.SubprocessRunner(use_venv=False), pipeline_root="runs")
print("metrics", one(job={job}, texts={texts}).output.metadata)
"""


def one_step(tmp_path: Path, job: dict, **texts: str) -> Path:
    file = tmp_path / "one_step.py"
    file.write_text(ONE_STEP.format(job=job, texts=texts))
    return file


def test_the_pipeline_compiles(run, tmp_path):
    run("python", PIPELINE, "compile", tmp_path / "pipeline.yaml")
    pipeline = yaml.safe_load((tmp_path / "pipeline.yaml").read_text())
    steps = pipeline["root"]["dag"]["tasks"]
    assert set(steps) == {"load-digits", "windlass-gang", "evaluate", "register"}
    gang = pipeline["deploymentSpec"]["executors"]["exec-windlass-gang"]["container"]
    assert gang["image"] == f"windlass:{windlass.__version__}"


def test_the_local_runner_trains_evaluates_and_registers(run, state, tmp_path):
    ran = run("python", PIPELINE, "run", "--epochs", "2")
    [folder] = (tmp_path / "registry").iterdir()
    card = json.loads((folder / "card.json").read_text())
    assert card["accuracy"] > 0.85
    assert card["windlass_job"] == folder.name
    assert {each.name for each in folder.iterdir()} == {"model.pt", "predictions.npy", "card.json"}
    assert f"registered in {folder}" in ran.stdout
    with windlass.Client("local", state=state) as client:
        [job] = client.history()
    assert (job.phase, job.ranks, job.id) == ("Succeeded", 2, card["windlass_job"])


def test_a_step_reports_metrics_of_its_output(run, tmp_path):
    job = {"name": "m", "cpus": 0, "command": "echo loss 0.5; echo loss 0.25 acc=0.9; echo $WINDLASS_OUTPUT"}
    ran = run("python", one_step(tmp_path, job, loss="loss ", acc=r"acc=([0-9.]+)"))
    line = next(line for line in ran.stdout.splitlines() if line.startswith("metrics "))
    assert "'loss': 0.25" in line
    assert "'acc': 0.9" in line
    assert "'attempts': 1.0" in line
    assert re.search(r"\[r0\] /.*/windlass-gang/output", ran.stdout)


def test_a_job_that_fails_fails_the_step(run, tmp_path):
    ran = run("python", one_step(tmp_path, {"name": "f", "cpus": 0, "command": "exit 3"}), check=False)
    assert ran.returncode != 0
    assert "f-1 has failed: " in ran.stdout + ran.stderr


def test_a_wrong_metric_submits_nothing(run, state, tmp_path):
    ran = run("python", one_step(tmp_path, {"command": "true"}, loss="(a)(b)"), check=False)
    assert "the metric loss has 2 groups" in ran.stdout + ran.stderr
    with windlass.Client("local", state=state) as client:
        assert client.list(ended=True) == []
