"""The digits of train.py with `windlass.train`: the same CNN and data, with checkpoints and recovery.

    python train_windlass.py --precision bf16                            one process
    windlass run -N 2 -G 1 -- python train_windlass.py --precision bf16     two ranks with averaged gradients

After a kill it resumes from the last verified checkpoint with the next sample, on any number of ranks. After SIGTERM
all ranks save together after the current step.
"""

import argparse

import torch
from torch import Tensor
from torch.nn import functional as F

from train import BATCH, cnn, digits
from windlass import train


def main() -> None:
    args = arguments()
    with train.init(precision=args.precision, seed=args.seed, report_every=args.report_every) as run:
        train_set, test_set = digits()
        model, optimizer = run.parallelize(cnn, optimizer=torch.optim.AdamW, lr=2e-3)
        data = run.data(train_set, global_batch=BATCH)
        checkpoints = run.checkpoint(args.checkpoint_dir, run.state(model, optimizer, data), every=args.every)
        for batch in checkpoints.resume().steps(args.epochs * len(train_set) // BATCH):
            loss = run.backward(model, batch, F.cross_entropy)
            run.step(optimizer, clip=1.0, loss=loss)
        accuracy = run.evaluate(model, test_set, accuracy_of, global_batch=len(test_set) // 5)
        run.print(f"test accuracy {accuracy:.4f}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16", "fp16"])
    parser.add_argument("--checkpoint-dir", default="", help="a folder, or an object store such as s3://bucket/run")
    parser.add_argument("--every", default="44 steps", help="interval of saves: 10m, or 44 steps")
    parser.add_argument("--report-every", type=int, default=22, help="steps between two lines of output")
    return parser.parse_args()


def accuracy_of(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the accuracy as a loss-like value, which is averaged over all images."""
    return (scores.argmax(1) == labels).float().mean()


if __name__ == "__main__":
    main()
