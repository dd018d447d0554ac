"""A small GPT that saves checkpoints and prints the identity of each rank, and a line for each step.

Arguments: the mesh, the location of checkpoints, the number of steps, and a file with the step up to which it may go:
faults are injected from outside, and must not be late on a slow machine.
"""

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples/gpt"))

import torch
from model import Decoder, Shape
from torch import Tensor
from torch.nn import functional

from windlass import train

SHAPE = Shape(vocabulary=64, width=32, layers=2, heads=4, length=16, hidden=64)
EVERY = 4
"""Steps between two checkpoints."""
PACE = 0.03
"""Minimum seconds of a step: faults come between steps and in the middle of saves."""


def main(mesh: str, place: str, steps: str, leash: str) -> None:
    print(f"rank {os.environ['RANK']} is {os.getpid()}", flush=True)  # noqa: T201 - whoever works faults has to know
    text = torch.randint(64, (96, SHAPE.length + 1), generator=torch.Generator().manual_seed(1))
    with train.init(mesh, report_every=0) as run:
        plan = train.Plan(pipeline=("embed", "layers.*", "norm", "head"))
        model, optimizer = run.parallelize(lambda: Decoder(SHAPE), plan, lr=1e-3)
        data = run.data([(each[:-1], each[1:]) for each in text], global_batch=8)
        state = run.state(model, optimizer, data)
        checkpoints = run.checkpoint(place, state, every=f"{EVERY} steps", keep=3)
        for batch in checkpoints.resume().steps(int(steps)):
            until = time.monotonic() + PACE
            loss = run.backward(model, batch, loss_of)
            heard = run.mean_loss(model, loss)
            before = run.steps_done
            run.step(optimizer, clip=1.0, loss=loss)
            if run.steps_done > before:
                os.write(
                    1, f"step {batch.step}: {heard.hex()}\n".encode()
                )  # on all ranks: one may die before it prints
            time.sleep(max(0.0, until - time.monotonic()))
            while batch.step >= int(Path(leash).read_text()):
                time.sleep(0.01)


def loss_of(scores: Tensor, text: Tensor) -> Tensor:
    return functional.cross_entropy(scores.flatten(0, 1), text.flatten())


if __name__ == "__main__":
    main(*sys.argv[1:])
