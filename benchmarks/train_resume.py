"""An interrupted and resumed run against an uninterrupted one: on the same mesh, another one, another number of ranks.

The GPT example's decoder, fp32, with checkpoints: equal to the bit on the same mesh, to rounding on others. The samples
of each step are the same, whichever rank reads them.
"""

import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

CUT, STEPS, CLOSE = 10, 20, 1e-6
SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
import torch
from model import Decoder, Shape
from torch.nn import functional as F
from windlass import train

SHAPE = Shape(vocabulary=64, width=64, layers=4, heads=4, length=32, hidden=128)
text = torch.randint(64, (400, 33), generator=torch.Generator().manual_seed(1))
with train.init(sys.argv[2], report_every=0) as run:
    plan = train.Plan(pipeline=("embed", "layers.*", "norm", "head"))
    model, optimizer = run.parallelize(lambda: Decoder(SHAPE), plan, lr=1e-3)
    data = run.data([(each[:-1], each[1:]) for each in text], global_batch=12)
    checkpoints = run.checkpoint(sys.argv[3], run.state(model, optimizer, data), every="1000 steps")
    for batch in checkpoints.resume().steps(int(sys.argv[4])):
        loss = run.backward(model, batch, lambda scores, text: F.cross_entropy(scores.flatten(0, 1), text.flatten()))
        run.step(optimizer, clip=1.0, loss=loss)
        mean_loss = run.mean_loss(model, loss)
        read = ",".join(map(str, batch.indices))
        sys.stdout.write(f"step {batch.step} loss {mean_loss.hex()} data rank {run.mesh.data_rank} read {read}\\n")
        sys.stdout.flush()
"""
SAME = ("dp=2", "fsdp=2", "tp=2", "pp=2", "pp=2,dp=2")
OTHER = (("dp=2", "fsdp=2"), ("fsdp=2", "pp=2"), ("pp=2", "tp=2"), ("tp=2", "dp=2"))
RESIZED = (("dp=4", "dp=3"), ("fsdp=4", "dp=2"), ("dp=2", ""), ("", "pp=2,dp=2"))
Run = tuple[dict[int, float], dict[int, list[int]]]
"""Values of each step: the loss, and the samples in the order of the batch."""


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train.py").write_text(SCRIPT)
        whole = {mesh: run_training(folder, mesh, f"whole-{mesh}", STEPS) for mesh in SAME}
        report("the same mesh", [compare(folder, whole[mesh], mesh, mesh) for mesh in SAME], 0.0)
        report("another mesh", [compare(folder, whole[first], first, then) for first, then in OTHER], CLOSE)
        alone = run_training(folder, "", "whole", STEPS)
        resized = [compare(folder, alone, first, then) for first, then in RESIZED]
        report("another number of ranks", resized, CLOSE)
    what = "resumed on another number of ranks: steps with other samples"
    print(json.dumps({"claim": what, "measured": sum(others for _, others in resized), "unit": "", "target": 0}))


def compare(folder: Path, whole: Run, first: str, then: str) -> tuple[float, int]:
    """Interrupt and resume a run; return the difference of its losses, and the number of steps with other samples."""
    place = f"{first}-{then}"
    before, after = run_training(folder, first, place, CUT), run_training(folder, then, place, STEPS)
    losses, samples = before[0] | after[0], before[1] | after[1]
    assert set(after[0]) == set(range(CUT, STEPS)), "the run has not resumed after its last step"
    off = max(abs(losses[step] - loss) for step, loss in whole[0].items())
    others = sum(samples[step] != read for step, read in whole[1].items())
    print(
        f"{first or 'one rank':10} → {then or 'one rank':10} off by {off:.1e}, other samples at {others} steps",
        flush=True,
    )
    return off, others


def run_training(folder: Path, mesh: str, place: str, steps: int) -> Run:
    example = Path(__file__).resolve().parents[1] / "examples/gpt"
    command = [
        sys.executable,
        "-m",
        "windlass.agent",
        f"--nproc-per-node={ranks_of(mesh)}",
        folder / "train.py",
        example,
    ]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    finished = subprocess.run(
        [*command, mesh, folder / place, str(steps)], env=env, capture_output=True, text=True, check=True, timeout=600
    )
    losses: dict[int, float] = {}
    read: dict[int, dict[int, list[int]]] = {}
    for step, loss, rank, indices in re.findall(r"step (\d+) loss (\S+) data rank (\d+) read (\S*)", finished.stdout):
        losses[int(step)] = float.fromhex(loss)
        read.setdefault(int(step), {})[int(rank)] = [int(each) for each in indices.split(",")]
    return losses, {
        step: list(itertools.chain(*(slices[rank] for rank in sorted(slices)))) for step, slices in read.items()
    }


def ranks_of(mesh: str) -> int:
    count = 1
    for part in filter(None, mesh.split(",")):
        count *= int(part.partition("=")[2])
    return count


def report(where: str, found: list[tuple[float, int]], target: float) -> None:
    worst = max(off for off, _ in found)
    what = f"resumed on {where}: largest difference of a loss over {STEPS} steps"
    print(json.dumps({"claim": what, "measured": worst, "unit": "nats", "target": target}))


if __name__ == "__main__":
    main()
