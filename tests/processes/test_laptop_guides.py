"""Runs the commands of the guides that need one machine and no cluster, and compares what they print.

`guide_commands` says how. A guide that is not in the table has a test of its own.
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


def wrong_job_file(place: Place) -> None:
    (place.folder / "bad.yaml").write_text("name: bad\nnode: 2\ngpus: two\n")


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

NOT_ON_A_LAPTOP = {
    "notebooks.md": "starts JupyterLab, as tests/browser/test_notebook.py does",
    "schedules.md": "waits for times of the day; tests/processes/test_schedules.py runs its verbs",
    "workshop.md": "starts labs and their cluster; tests/labs plays every lab",
    "other-schedulers.md": "needs a cluster with the scheduler of another project",
}
"""Guides whose commands do not run here, with the reason."""


@pytest.mark.parametrize("guide", BLOCKS)
def test_every_command_of_a_guide_works_and_prints_what_it_shows(state: Path, tmp_path: Path, guide: str):
    link_python(tmp_path / "bin")
    text = (GUIDES / guide).read_text(encoding="utf-8")
    check_guide(Place(state, tmp_path), text, BLOCKS[guide], REFUSALS.get(guide, (0,)))


def test_the_commands_of_the_readme_work_and_print_what_it_shows(state: Path, tmp_path: Path):
    """Without the section whose job `make demo` makes."""
    link_python(tmp_path / "bin")
    text = re.sub(r"^## A lost rank\n.*?(?=^## )", "", (ROOT / "README.md").read_text(), flags=re.MULTILINE | re.DOTALL)
    preparations: list[Callable[[Place], None]] = [nothing for _ in BLOCK.finditer(text)]
    preparations[1], preparations[4] = examples, wrong_job_file
    check_guide(Place(state, tmp_path), text, preparations, codes=(0, 2, 3))


def test_every_guide_with_commands_is_named_by_a_test_or_has_a_reason():
    tests = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    with_commands = {path.name for path in GUIDES.glob("*.md") if BLOCK.search(path.read_text(encoding="utf-8"))}
    assert {guide for guide in with_commands if f'{guide}"' not in tests} <= NOT_ON_A_LAPTOP.keys()
