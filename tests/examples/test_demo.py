"""`make demo`: its output, the dashboard that it names, and the removal of its processes."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import strays

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(300)
def test_the_demo_prints_its_steps_and_leaves_no_process(tmp_path):
    env = {
        **os.environ,
        "TMPDIR": str(tmp_path),
        "WINDLASS_PRELOAD": "sklearn.datasets,torch._dynamo,torch.distributed.nn",
    }
    command = [sys.executable, "examples/demo.py"]
    ran = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for shown in ("WaitingForQuota", "$ kill -9", "resumed after epoch", "recovered in place 1×", "test accuracy 0.9"):
        assert shown in ran.stdout
    (folder,) = tmp_path.glob("windlass*")  # kept for the dashboard
    assert f"windlass ui --state {folder}/state --port 7420\n  http://127.0.0.1:7420/jobs/digits\n" in ran.stdout
    assert f"rm -r {folder}" in ran.stdout
    strays.assert_none_left([folder / "state"])


def test_the_demo_on_kubernetes_names_missing_tools_and_starts_no_process(monkeypatch, capsys):
    monkeypatch.syspath_prepend(ROOT / "examples")
    demo = importlib.import_module("demo_kubernetes")
    monkeypatch.setattr(demo.real_nodes, "missing_requirement", lambda: "real nodes need runc: apt-get install runc")
    monkeypatch.setattr(demo.signal, "signal", lambda *_: None)
    assert demo.main() == 1
    output = capsys.readouterr()
    assert "apt-get install runc. The jobs themselves need neither: `make demo`" in output.err
    assert output.out.count("  NOT  ") == len(demo.CHECKS)


@pytest.mark.timeout(300)
def test_the_demo_of_the_workshop_plays_labs_and_leaves_nothing(tmp_path):
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "examples/demo_workshop.py", "g1"]
    ran = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for shown in (
        "1. G1: RDMA",
        "$ windlass lab start g1",
        "  no  pasted.yaml: lint",
        "  g1 is accepted",
        "Accepted g1 after",
    ):
        assert shown in ran.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_demo_of_the_workshop_names_an_unknown_lab(monkeypatch, capsys):
    monkeypatch.syspath_prepend(ROOT / "examples")
    assert importlib.import_module("demo_workshop").main(["zz"]) == 1
    assert "there is no lab 'zz'" in capsys.readouterr().err
