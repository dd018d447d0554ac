"""A script that keeps checkpoints, and on which something goes wrong where the test says: STEP:RANK:WHAT, by commas.

A fault comes once: in the generation of its number. Prints the samples of each step and the last loss.
"""

import os
import signal
import sys
import time

from small_models import Decoder, cross_entropy, tokens

from windlass import train

STEPS = 24


def main(place: str, faults: str) -> None:
    generation = int(os.environ.get("WINDLASS_GENERATION", "1"))
    planned = [tuple(fault.split(":")) for fault in faults.split(",") if fault]
    with train.init(report_every=0) as run:
        mine = [
            (int(step), what)
            for step, rank, what in planned[generation - 1 : generation]
            if int(rank) == run.world.rank
        ]
        model, optimizer = run.parallelize(lambda: Decoder(layers=2, dropout=0.1), lr=1e-2)
        data = run.data(tokens(100), global_batch=12)
        checkpoints = run.checkpoint(place, run.state(model, optimizer, data), every="2 steps")
        for batch in checkpoints.resume().steps(STEPS):
            for step, what in mine:
                if batch.step == step:
                    fail(what)
            loss = run.backward(model, batch, cross_entropy)
            run.step(optimizer, clip=1.0, loss=loss)
            heard = run.mean_loss(model, loss)
            run.say(f"step {batch.step}: {heard:.12f}")


def fail(what: str) -> None:
    if what == "hang":
        time.sleep(1000)
    os.kill(os.getpid(), {"kill": signal.SIGKILL, "term": signal.SIGTERM, "stop": signal.SIGSTOP}[what])


if __name__ == "__main__":
    main(*sys.argv[1:])
