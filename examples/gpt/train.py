"""A small GPT that learns the Python standard library's own source, byte by byte, on any mesh.

    python train.py                                                                 one process
    windlass run -N 2 --procs 4 --cpus 0 --mesh pp=2,dp=2,tp=2 -- python train.py    eight, in three dimensions

`--cpus 0` lets the processes share the cores of a small machine.

After a kill it resumes with the next sample, on any number of ranks.
"""

import argparse
import sysconfig
from pathlib import Path

import torch
from model import Decoder, Shape, sample
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import Dataset

from windlass import train

BATCH = 24
"""Sequences in a step, over all ranks together."""
SHAPE = Shape()


def main() -> None:
    args = arguments()
    with train.init(args.mesh, precision=args.precision, ac=args.ac, seed=args.seed) as run:
        plan = train.Plan(pipeline=("embed", "layers.*", "norm", "head"))
        model, optimizer = run.parallelize(lambda: Decoder(SHAPE), plan, torch.optim.AdamW, lr=2e-3, weight_decay=0.1)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: learning_rate_factor(step, args.steps))
        train_set, test_set = standard_library()
        data = run.data(train_set, global_batch=BATCH)
        state = run.state(model, optimizer, data, schedule=schedule)
        checkpoints = run.checkpoint(args.checkpoint_dir, state, every=args.every)
        for batch in checkpoints.resume().steps(args.steps):
            loss = run.backward(model, batch, loss_of)
            run.step(optimizer, clip=1.0, loss=loss)
            schedule.step()
        validation_loss = run.evaluate(model, test_set, loss_of, global_batch=BATCH, batches=4)
        run.print(f"validation loss {validation_loss:.3f} nats a byte")
        if run.world.size == 1:
            run.print(f"sample:\n{sample(model.module, SHAPE, 'def ', 200, run.world.device)}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mesh", default="", help="such as pp=2,dp=2,tp=2; default: the job's, or dp on all ranks")
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16", "fp16"])
    parser.add_argument("--ac", default="none", choices=["none", "selective", "full"], help="recomputed activations")
    parser.add_argument("--checkpoint-dir", default="", help="a folder, or an object store such as s3://bucket/run")
    parser.add_argument("--every", default="50 steps", help="interval of saves: 10m, or 50 steps")
    return parser.parse_args()


class Text(Dataset):
    """Pieces of a text, and the same pieces one byte later."""

    def __init__(self, text: bytes, length: int) -> None:
        self.text, self.length = torch.frombuffer(bytearray(text), dtype=torch.uint8), length

    def __len__(self) -> int:
        return (len(self.text) - 1) // self.length

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        piece = self.text[index * self.length : (index + 1) * self.length + 1].long()
        return piece[:-1], piece[1:]


def standard_library() -> tuple[Text, Text]:
    """Return every module at the library's top level; every tenth file is held out."""
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    training = b"".join(path.read_bytes() for index, path in enumerate(files) if index % 10)
    test = b"".join(path.read_bytes() for path in files[::10])
    return Text(training, SHAPE.length), Text(test, SHAPE.length)


def learning_rate_factor(step: int, steps: int) -> float:
    """Return the factor of the learning rate: twenty steps of warm-up, then linear decay to a tenth."""
    return min((step + 1) / 20, 1 - 0.9 * step / steps)


def loss_of(scores: Tensor, text: Tensor) -> Tensor:
    return F.cross_entropy(scores.flatten(0, 1), text.flatten())


if __name__ == "__main__":
    main()
