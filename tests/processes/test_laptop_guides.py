"""Runs the commands of the guides that need one machine and no cluster, and compares what they print.

`guide_commands` says how. Every guide with commands is in a table here or in a test of its own.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from guide_commands import BLOCK, Place, check_guide, nothing
from terminal import ok

from torch_forks import link_python

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "docs/guides"
SBATCH = """\
#!/bin/bash
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=1
#SBATCH --time=00:10:00
#SBATCH --mem=100M
#SBATCH --mail-type=END
srun sh -c 'echo trained'
"""
TWO_MASTERS = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: digits
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 3
      template: {spec: {containers: [{name: pytorch, image: i}]}}
"""


def examples(place: Place) -> None:
    """A copy, because jobs write checkpoints beside their files."""
    shutil.copytree(ROOT / "examples", place.folder / "examples", ignore=shutil.ignore_patterns("checkpoints"))


def script(place: Place) -> None:
    (place.folder / "train.py").write_text("import os\nprint('rank', os.environ['RANK'])\n")


def batch_script(place: Place) -> None:
    (place.folder / "train.sbatch").write_text(SBATCH)
    ok(place.state, "up", "-d", "--local-nodes", "2")


def manifest(place: Place) -> None:
    shutil.copy(ROOT / "examples/kubernetes/digits.yaml", place.folder)


def wrong_manifest(place: Place) -> None:
    (place.folder / "digits.yaml").write_text(TWO_MASTERS)


def damaged_checkpoint(place: Place) -> None:
    """The newest checkpoint has one byte that differs."""
    newest = max((place.folder / "runs/digits").glob("step-*"))
    shard = newest / "__0_0.distcp"
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)


BLOCKS: dict[str, list[Callable[[Place], None]]] = {
    "agent.md": [script, nothing],
    "checkpoints.md": [examples, damaged_checkpoint],
    "dashboard.md": [nothing, nothing],
    "from-slurm.md": [batch_script],
    "installing.md": [nothing, nothing, nothing],
    "jobs-on-kubernetes.md": [nothing],
    "manifests.md": [manifest, wrong_manifest, nothing, nothing],
    "simulating.md": [examples],
    "telemetry.md": [examples, *[nothing] * 5],
}
"""By guide: what prepares each of its blocks, in their order."""
REFUSALS = {"checkpoints.md": (0, 1), "manifests.md": (0, 2)}
"""Exit codes of guides that show what a fault looks like."""
OTHER_TESTS = {
    "from-skypilot.md": "tests/processes/test_imported_files.py",
    "from-torchx.md": "tests/pipelines/test_guides.py",
    "gpu-sharing.md": "tests/unit/hardware/sharing/test_sharing_guide.py",
    "sharing-a-cluster.md": "tests/processes/test_guide.py",
}
"""Guides whose commands another test runs."""


@pytest.mark.parametrize("guide", BLOCKS)
def test_every_command_of_a_guide_works_and_prints_what_it_shows(state: Path, tmp_path: Path, guide: str):
    link_python(tmp_path / "bin")
    text = (GUIDES / guide).read_text(encoding="utf-8")
    check_guide(Place(state, tmp_path), text, BLOCKS[guide], REFUSALS.get(guide, (0,)))


def test_every_guide_with_commands_is_run_by_a_test():
    with_commands = {path.name for path in GUIDES.glob("*.md") if BLOCK.search(path.read_text(encoding="utf-8"))}
    in_tables = set(re.findall(r'"([a-z-]+\.md)": \[', (ROOT / "tests/processes/test_diagnosis_guides.py").read_text()))
    assert with_commands - BLOCKS.keys() - in_tables - OTHER_TESTS.keys() == set()
    for guide, test in OTHER_TESTS.items():
        assert guide in (ROOT / test).read_text(), f"{test} does not run {guide}"
