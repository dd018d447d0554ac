"""`windlass doctor host --burn` with real workers on the CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def test_every_load_test_measures_this_machine():
    command = [Path(sys.executable).with_name("windlass"), "doctor", "host", "--burn", "--seconds", "0.1", "-o", "json"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    steps = {step["step"].partition(":")[0]: step for step in json.loads(ran.stdout)["steps"] if step["area"] == "burn"}
    assert set(steps) == {"burn.matmul", "burn.memory", "burn.all-reduce", "burn.disk"}
    assert {step["state"] for step in steps.values()} == {"ok"}, steps
    assert "gloo, 2 ranks" in steps["burn.all-reduce"]["text"]
    assert "all-reduce between 2 processes, 0.1 s" in ran.stderr
