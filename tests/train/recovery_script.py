"""A script whose ranks are killed at any moment. Each writes a line for each step into its own file."""

import os
import sys
import time
from pathlib import Path

import torch
from small_models import Decoder, cross_entropy, tokens

from windlass import train


def main(folder: str, steps: str, pause: str, dropout: str = "0.1") -> None:
    with train.init(report_every=0) as run, Path(folder, f"rank-{os.getpid()}.txt").open("w", buffering=1) as log:
        model, optimizer = run.parallelize(lambda: Decoder(layers=2, dropout=float(dropout)), lr=1e-2)
        data = run.data(tokens(100), global_batch=12)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, int(steps))
        state = run.state(model, optimizer, data, schedule=schedule)
        checkpoints = run.checkpoint(f"{folder}/checkpoints", state, every="7 steps")
        for batch in checkpoints.resume().steps(int(steps)):
            time.sleep(float(pause))
            loss = run.backward(model, batch, cross_entropy)
            if loss.isfinite():
                log.write(f"{batch.step} {os.environ['WINDLASS_GENERATION']} {','.join(map(str, batch.indices))}\n")
            run.step(optimizer, clip=1.0, loss=loss)
            schedule.step()
            run.mean_loss(model, loss)
            if run.steps_done % 5 == 0:
                checkpoints.save()
        evaluated = run.evaluate(model, tokens(24), cross_entropy, global_batch=12)
        run.print(f"in the end {evaluated:.12f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
    os._exit(0)  # without the end of the interpreter, which takes 0.4 s of CPU time in a forked process
