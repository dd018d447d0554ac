"""Cost of a step with `windlass.train` against raw torch: two ranks, DDP and FSDP2, in turns within each process.

Raw torch is the loop of its own examples: DistributedSampler and DataLoader without workers, backward, clip, step. A
turn is long enough to contain work that occurs once a second.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TARGET = 1.02
SCRIPT = """
import itertools, statistics, sys, time
sys.path.insert(0, sys.argv[1])
import torch, torch.distributed as dist
from model import Decoder, Shape
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
from windlass import train

SHAPE, BATCH, ROUNDS, STEPS = Shape(length=64), 16, 12, 16
text = torch.randint(256, (4096, SHAPE.length + 1), generator=torch.Generator().manual_seed(1))
samples = [(each[:-1], each[1:]) for each in text]
loss_of = lambda scores, text: F.cross_entropy(scores.flatten(0, 1), text.flatten())

def raw(kind):
    torch.manual_seed(0)
    model = Decoder(SHAPE)
    if kind == "dp":
        model = DistributedDataParallel(model)
    else:
        for block in (*model.layers, model):
            fully_shard(block)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(samples, BATCH // 2, sampler=DistributedSampler(samples), drop_last=True)
    for inputs, targets in itertools.chain.from_iterable(itertools.repeat(loader)):
        loss = loss_of(model(inputs), targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        yield

def ours(run):
    model, optimizer = run.parallelize(lambda: Decoder(SHAPE), lr=1e-3)
    data = run.data(samples, global_batch=BATCH)
    for batch in run.steps(data, 10**9):
        run.step(optimizer, clip=1.0, loss=run.backward(model, batch, loss_of))
        yield

with train.init(sys.argv[2], report_every=0) as run:
    steppers = {"raw": raw(sys.argv[2].partition("=")[0]), "ours": ours(run)}
    spent = {name: [] for name in steppers}
    for round in range(ROUNDS + 1):
        for name, stepper in steppers.items():
            dist.barrier()
            begin = time.perf_counter()
            for _ in range(STEPS):
                next(stepper)
            if round:
                spent[name].append((time.perf_counter() - begin) / STEPS * 1000)
    run.print(" ".join(f"{name} {statistics.median(each):.3f}" for name, each in spent.items()))
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "train.py")
        script.write_text(SCRIPT)
        for mesh, name in (("dp=2", "DDP"), ("fsdp=2", "FSDP2")):
            raw, ours = milliseconds(script, mesh)
            print(f"{name}: raw torch {raw:.1f} ms, windlass.train {ours:.1f} ms: {ours / raw:.3f}×")
            claim = f"a step of two ranks, data included, against raw torch's {name}"
            line = {
                "claim": claim,
                "measured": ours,
                "unit": "ms",
                "target": TARGET * raw,
                "peer": name,
                "peer_measured": raw,
            }
            print(json.dumps(line))


def milliseconds(script: Path, mesh: str) -> tuple[float, float]:
    """Milliseconds of a step: raw torch, and Windlass."""
    example = Path(__file__).parents[1] / "examples/gpt"
    command = [sys.executable, "-m", "windlass.agent", "--nproc-per-node=2", script, example, mesh]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=600)
    found = re.search(r"raw (\d+\.\d+) ours (\d+\.\d+)", ran.stdout)
    assert found, ran.stdout
    return float(found[1]), float(found[2])


if __name__ == "__main__":
    main()
