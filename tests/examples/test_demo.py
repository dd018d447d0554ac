"""`make demo` is the first thing a newcomer sees."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(300)
def test_the_demo_shows_what_it_promises_and_clears_up(tmp_path):
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "examples/demo.py"]
    ran = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for shown in ("WaitingForQuota", "$ kill -9", "resumed after epoch", "recovered in place 1×", "test accuracy 0.9"):
        assert shown in ran.stdout
    assert not list(tmp_path.glob("windlass*"))


def test_the_demo_on_kubernetes_says_what_it_needs_and_starts_nothing(monkeypatch, capsys):
    monkeypatch.syspath_prepend(ROOT / "examples")
    demo = importlib.import_module("demo_kubernetes")
    monkeypatch.setattr(demo.real_nodes, "why_not", lambda: "real nodes need runc: sh tools/install_nodes.sh")
    monkeypatch.setattr(demo.signal, "signal", lambda *_: None)
    assert demo.main() == 1
    said = capsys.readouterr()
    assert "sh tools/install_nodes.sh. The jobs themselves need neither: `make demo`" in said.err
    assert said.out.count("  NOT  ") == len(demo.SEEN)
