"""A rank of the network test alone: without torch, and with an address that nothing serves."""

import subprocess
import sys

from windlass.diagnose.network import sweep_worker
from windlass.diagnose.network.measurements import read_sweep


def test_an_image_without_torch_names_the_extra(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('none here')")
    words = [sys.executable, sweep_worker.__file__]
    done = subprocess.run(words, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    (error,) = read_sweep(done.stdout.splitlines()).errors
    assert done.returncode == 1
    assert error.endswith("torch is not installed: pip install 'windlass-train[train]'")


def test_the_file_of_a_rank_needs_nothing_of_windlass(tmp_path):
    words = [sys.executable, "-I", "-S", sweep_worker.__file__, "--help"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, "--sizes" in done.stdout) == (0, True)
