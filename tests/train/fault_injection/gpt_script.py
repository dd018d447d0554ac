"""A small GPT that saves checkpoints and prints the identity of each rank, and a line for each step.

Arguments: the mesh, the location of checkpoints, the number of steps, and a file with the last step that is permitted
so far: the test injects faults from outside, and must not be late on a slow machine.
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
SAVE_INTERVAL = 4
"""Steps between two checkpoints."""
MIN_STEP_S = 0.03
"""Minimum seconds of a step, so that faults are injected between steps and in the middle of saves."""


def main(mesh: str, place: str, steps: str, step_limit: str) -> None:
    print(f"rank {os.environ['RANK']} is {os.getpid()}", flush=True)  # noqa: T201 - the test sends signals to it
    text = torch.randint(64, (96, SHAPE.length + 1), generator=torch.Generator().manual_seed(1))
    with train.init(mesh, report_every=0) as run:
        plan = train.Plan(pipeline=("embed", "layers.*", "norm", "head"))
        model, optimizer = run.parallelize(lambda: Decoder(SHAPE), plan, lr=1e-3)
        data = run.data([(each[:-1], each[1:]) for each in text], global_batch=8)
        state = run.state(model, optimizer, data)
        checkpoints = run.checkpoint(place, state, every=f"{SAVE_INTERVAL} steps", keep=3)
        for batch in checkpoints.resume().steps(int(steps)):
            until = time.monotonic() + MIN_STEP_S
            loss = run.backward(model, batch, loss_of)
            loss_value = run.mean_loss(model, loss)
            before = run.steps_done
            run.step(optimizer, clip=1.0, loss=loss)
            if run.steps_done > before:
                # on all ranks: one may be killed before it prints
                os.write(1, f"step {batch.step}: {loss_value.hex()}\n".encode())
            time.sleep(max(0.0, until - time.monotonic()))
            while batch.step >= int(Path(step_limit).read_text()):
                time.sleep(0.01)


def loss_of(scores: Tensor, text: Tensor) -> Tensor:
    return functional.cross_entropy(scores.flatten(0, 1), text.flatten())


if __name__ == "__main__":
    main(*sys.argv[1:])
    os._exit(0)  # without the end of the interpreter, which takes 0.4 s of CPU time in a forked process
