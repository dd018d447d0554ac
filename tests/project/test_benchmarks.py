import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = sorted((ROOT / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_a_benchmark_can_be_loaded(path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(path.parent), *sys.path])
    assert callable(runpy.run_path(str(path))["main"])
