"""A pipeline of stages that sleep, and the share of the time in which they wait.

One process for each stage: windlass run --procs 4 --cpus 0 --mesh pp=4 -- python pipeline.py
"""

import argparse

import torch
from stages import BATCH, WIDTH, SleepingRank, StepTimeline, build_blocks
from torch import nn
from torch.utils.data import TensorDataset

from windlass import train


def predicted_bubble(stages: int, micro_batches: int) -> float | None:
    """Return the share of the time, from 0 to 1, in which a stage has nothing to do; None as long as it is unknown."""
    return (stages - 1) / (micro_batches + stages - 1)


def main() -> None:
    args = arguments()
    torch.set_num_threads(1)
    rank = SleepingRank()
    timeline = StepTimeline(rank)
    inputs = torch.randn(BATCH, WIDTH, generator=torch.Generator().manual_seed(1))
    dataset = TensorDataset(inputs, inputs.flip(1))
    with train.init(report_every=1000) as run:
        for schedule in args.schedule:
            plan = train.Plan(schedule=schedule, stages_per_rank=2 if schedule == "interleaved" else 1)
            model, optimizer = run.parallelize(lambda: build_blocks(rank), plan, torch.optim.SGD, lr=0.1)
            for micro_batches in args.micro_batches:
                data = run.data(dataset, BATCH, micro_batch=BATCH // micro_batches)
                for batch in run.steps(data, run.steps_done + 2):
                    timeline.begin()  # the first of the two steps does not sleep: stages learn their shapes in it
                    loss = run.backward(model, batch, nn.functional.mse_loss)
                    timeline.end()
                    run.step(optimizer, loss=loss)
                timeline.report(schedule, micro_batches, predicted_bubble(run.world.size, micro_batches))
        timeline.write()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--micro-batches", type=int, nargs="+", default=[4, 8], help=f"divisors of {BATCH}")
    parser.add_argument("--schedule", nargs="+", choices=["gpipe", "1f1b", "interleaved"], default=["1f1b"])
    args = parser.parse_args()
    for number in args.micro_batches:
        if number < 1 or BATCH % number:
            parser.error(f"{number} micro-batches of equal size cannot be made of {BATCH} samples; use a divisor")
    return args


if __name__ == "__main__":
    main()
