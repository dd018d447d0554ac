"""The proof of the guide to tutorial errors that needs kfp."""

from __future__ import annotations

import subprocess

from documented_blocks import BLOCKS


def test_the_old_limit_sets_no_type_of_accelerator(programs, tmp_path):
    (tmp_path / "accelerators.py").write_text(BLOCKS["accelerators.py"])
    command = [programs / "python", "-W", "always", "accelerators.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout == BLOCKS["output of accelerators.py"]
    assert "'set_gpu_limit' is deprecated" in ran.stderr
