"""A script that saves checkpoints and injects faults into itself: STEP:RANK:WHAT, separated by commas.

The first fault occurs in generation 1, the second in generation 2, and so on: inside the loss function of that step,
so within a phase. "dawdle" instead makes the script slow between two steps and in an evaluation. Prints the loss of
each step. With in-memory replicas every so many steps, no checkpoint is saved before the end.
"""

import os
import signal
import sys
import time

from small_models import Decoder, cross_entropy, tokens

from windlass import train

STEPS = 24
SLOW = 5.0
"""Seconds: longer than the limit of a phase in these tests plus the interval of the agent's checks."""


def main(place: str, faults: str, copies: str = "", pause: str = "0") -> None:
    planned = [tuple(fault.split(":")) for fault in faults.split(",") if fault]
    with train.init(report_every=0) as run:
        model, optimizer = run.parallelize(lambda: Decoder(layers=2, dropout=0.1), lr=1e-2)
        data = run.data(tokens(100), global_batch=12)
        every = "1000 steps" if copies else "2 steps"
        checkpoints = run.checkpoint(place, run.state(model, optimizer, data), every=every, replicas=copies)

        def faulty(logits, targets):
            for step, rank, what in planned[generation() - 1 : generation()]:
                if (int(step), int(rank)) == (run.steps_done, run.world.rank):
                    fail(what)
            return cross_entropy(logits, targets)

        for batch in checkpoints.resume().steps(STEPS):
            if "dawdle" in faults and batch.step == STEPS // 2:
                time.sleep(run.world.rank * SLOW)
                run.evaluate(model, tokens(12), slow if run.world.rank else cross_entropy, global_batch=12)
            loss = run.backward(model, batch, faulty)
            run.step(optimizer, clip=1.0, loss=loss)
            loss_value = run.mean_loss(model, loss)
            run.print(f"step {batch.step}: {loss_value:.12f}")
            time.sleep(float(pause))


def generation() -> int:
    return int(os.environ.get("WINDLASS_GENERATION", "1"))


def slow(logits, targets):
    time.sleep(SLOW)
    return cross_entropy(logits, targets)


def fail(what: str) -> None:
    if what == "dawdle":
        return
    if what == "hang":
        time.sleep(1000)
    if what == "retry":
        sys.exit(84)
    if what == "raise":
        raise train.TrainError("this rank has a bad sample")
    os.kill(os.getpid(), {"kill": signal.SIGKILL, "term": signal.SIGTERM, "stop": signal.SIGSTOP}[what])


if __name__ == "__main__":
    main(*sys.argv[1:])
    os._exit(0)  # without the end of the interpreter, which takes 0.4 s of CPU time in a forked process
