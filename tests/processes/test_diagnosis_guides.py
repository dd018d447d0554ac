"""Runs the commands of the guides to diagnosis, lint, networks and plans, and compares what they print.

`guide_commands` says how. Commands that need a cluster, root or another launcher are left out.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from guide_commands import Place, check_guide, nothing, run
from recorded_calls import call, write_dumps
from terminal import facts, ok, until, windlass

from torch_forks import link_python

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "docs/guides"
OUT_OF_MEMORY = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.\n"
LATE = """\
step 1
Traceback (most recent call last):
  File "/job/train.py", line 8, in <module>
    dist.all_reduce(torch.ones(1))
  File "/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 3008, in all_reduce
    work.wait()
RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 6000ms for recv operation\
 to complete
"""
HANGS = """
import os, time
import torch
from windlass import train

class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 4096
    def __getitem__(self, index):
        return torch.ones(64), torch.zeros(1)

with train.init() as run:
    model, optimizer = run.parallelize(lambda: torch.nn.Linear(64, 1), optimizer=torch.optim.SGD, lr=0.01)
    for number, batch in enumerate(run.steps(run.data(Samples(), global_batch=4), STEPS)):
        if number == 10 and os.environ["RANK"] == "1":
            time.sleep(PAUSE_S)
        run.step(optimizer, loss=run.backward(model, batch, torch.nn.functional.mse_loss))
        print("step", number, flush=True)
"""
DECODER = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}
MODULE = """
import torch

class build_model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = torch.nn.Embedding(1000, 64), torch.nn.Linear(64, 1000)
    def forward(self, tokens):
        return self.head(self.embed(tokens))
"""


# --- the files and jobs that the blocks name -------------------------------------------------------------------------


def write_script(place: Place, steps: int, pause_s: int) -> None:
    (place.folder / "train.py").write_text(HANGS.replace("STEPS", str(steps)).replace("PAUSE_S", str(pause_s)))


def logs(place: Place) -> None:
    """One log, folders of logs, and the output of a batch job."""
    (place.folder / "logs").mkdir()
    for name in ("train.log", "logs/rank3.log", "slurm-8812-gpu17.out"):
        (place.folder / name).write_text(f"step 1\n{OUT_OF_MEMORY}")
    with gzip.open(place.folder / "logs/rank0.log.gz", "wt") as log:
        log.write("step 1\n")
    for name in ("dmesg.txt", "events.txt"):
        (place.folder / name).write_text("[    1.0] nothing to see\n")


def flight_recorders(place: Place) -> None:
    at = "train.py:40 in main"
    calls = {0: [call(number=11, at=at), call(number=12, state="scheduled", at=at)], 1: [call(number=11, at=at)]}
    (place.folder / "logs").mkdir()
    for folder in (place.folder, place.folder / "logs"):
        write_dumps(folder, calls)
        for rank in (0, 1):
            (folder / f"rank{rank}.log").write_text("step 1\n")


def logs_of_a_late_rank(place: Place) -> None:
    (place.folder / "rank0.log").write_text(LATE)
    (place.folder / "rank1.log").write_text("step 1\n")


def missing_package(place: Place) -> None:
    (place.folder / "train.py").write_text("import einops\n")


def hanging_job(place: Place) -> None:
    write_script(place, steps=80, pause_s=600)
    ok(place.state, "up", "-d", "--local-nodes", "2", "--local-gpus", "4")
    words = ("submit", "--name", "train", "-N", "2", "--launcher", "agent", "--workdir", str(place.folder))
    ok(place.state, *words, "--", str(place.folder / "bin/python"), "train.py")
    stands = "it['phase'] == 'Running' and it['progress'] and it['progress']['step'] == 10"
    until(place.state, f"{stands} and it['progress']['ranks'][0]['phase'] == 'backward'", "status", "train")


def trained_job(place: Place) -> None:
    write_script(place, steps=40, pause_s=0)
    ran = windlass(
        place.state, "run", "--name", "digits", "-N", "2", "--workdir", str(place.folder), "--", "python", "train.py"
    )
    assert ran.returncode == 0, ran.stderr


def manifests(place: Place) -> None:
    shutil.copy(ROOT / "examples/broken/gpu-resource-misspelt.yaml", place.folder / "train.yaml")
    (place.folder / "manifests").mkdir()
    shutil.copy(ROOT / "examples/broken/backoff-limit-below-ranks.yaml", place.folder / "manifests/job.yaml")
    (place.folder / "job.sbatch").write_text("#!/bin/bash\n#SBATCH -N 2\nsrun python train.py\n")


def program(place: Place) -> None:
    (place.folder / "train.py").write_text("print('trained')\n")


def output_of_a_test(place: Place) -> None:
    """The output of the ranks of the test that the guide has run before."""
    tested = next(job["id"] for job in facts(place.state, "history") if job["name"].startswith("network"))
    (place.folder / "sweep.log").write_text(ok(place.state, "logs", tested, "--bare"))


def models(place: Place) -> None:
    (place.folder / "config.json").write_text(json.dumps(DECODER))
    (place.folder / "model.py").write_text(MODULE)


BLOCKS: dict[str, list[Callable[[Place], None]]] = {
    "doctor.md": [logs],
    "doctor-hang.md": [flight_recorders, logs_of_a_late_rank],
    "doctor-jobs.md": [missing_package, hanging_job, nothing],
    "doctor-host.md": [nothing],
    "doctor-cluster.md": [nothing],
    "doctor-slow.md": [trained_job],
    "lint.md": [manifests],
    "networks.md": [program, nothing, nothing, nothing, output_of_a_test],
    "planning.md": [models],
}
"""By guide: what prepares each of its blocks, in their order."""


@pytest.mark.parametrize("guide", BLOCKS)
def test_every_command_of_a_guide_works_and_prints_what_it_shows(state: Path, tmp_path: Path, guide: str):
    link_python(tmp_path / "bin")
    check_guide(
        Place(state, tmp_path), (GUIDES / guide).read_text(encoding="utf-8"), BLOCKS[guide], codes=(0, 1)
    )  # a verdict or a finding exits with 1


def test_the_commands_within_the_text_work(state: Path, tmp_path: Path):
    for guide in sorted(GUIDES.glob("*.md")):
        for command in set(re.findall(r"`(windlass explain [a-z.-]+)`", guide.read_text(encoding="utf-8"))):
            code, printed = run(Place(state, tmp_path), command)
            assert code == 0, f"{guide.name}: {command}\n{printed}"
