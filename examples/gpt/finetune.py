"""A classifier on top of the GPT, which predicts the package of the standard library that a piece of source is from.

The body was trained by train.py on the library's top-level modules and is frozen; only a head is trained, on packages
that the body has not seen, and tested on files that the head has not seen. `finetune.yaml` runs all three steps:

    python train.py --checkpoint-dir checkpoints/body
    windlass checkpoint export checkpoints/body --only model --to body.safetensors
    python finetune.py --body body.safetensors

Without --body the same head is trained on a random body, which shows the value of the pre-training.
"""

import argparse
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import torch
from model import Decoder
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import ConcatDataset, Dataset

from train import SHAPE, Text
from windlass import train

PACKAGES = ("asyncio", "email", "importlib", "multiprocessing", "unittest", "xml")
BATCH = 64
"""Pieces in a step, over all ranks together."""


def main() -> None:
    args = arguments()
    with train.init(precision=args.precision, seed=args.seed) as run:
        model, optimizer = run.parallelize(
            lambda: classifier(args.body), optimizer=torch.optim.AdamW, groups=head_parameters, lr=1e-2
        )
        train_set, test_set = packages()
        data = run.data(train_set, global_batch=BATCH)
        checkpoints = run.checkpoint(args.checkpoint_dir, run.state(model, optimizer, data), every=args.every)
        for batch in checkpoints.resume().steps(args.steps):
            loss = run.backward(model, batch, F.cross_entropy)
            run.step(optimizer, clip=1.0, loss=loss)
        accuracy = run.evaluate(model, test_set, accuracy_of, global_batch=BATCH)
        run.print(f"{accuracy:.1%} of pieces classified correctly, of {len(PACKAGES)} packages")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--body", type=Path, help="weights from train.py as safetensors; default: random weights")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16", "fp16"])
    parser.add_argument("--checkpoint-dir", default="", help="a folder, or an object store such as s3://bucket/run")
    parser.add_argument("--every", default="50 steps", help="interval of saves: 10m, or 50 steps")
    return parser.parse_args()


class Head(nn.Module):
    """The head: from the body's output for each byte of a piece to scores of the packages."""

    def __init__(self, width: int, kinds: int) -> None:
        super().__init__()
        self.score = nn.Linear(2 * width, kinds)

    def forward(self, hidden: Tensor) -> Tensor:
        return self.score(torch.cat([hidden.mean(1), hidden.amax(1)], dim=-1))


def classifier(body: Path | None) -> Decoder:
    """Return the decoder with another head, and only the head trainable."""
    model = Decoder(SHAPE)
    if body is not None:
        model.load_state_dict(load_file(body))
    model.requires_grad_(False)
    model.head = Head(SHAPE.width, len(PACKAGES))
    return model


def head_parameters(model: nn.Module) -> list[dict[str, list[nn.Parameter]]]:
    """Return the parameter groups of the optimizer, which keeps no state for frozen parameters."""
    return [{"params": [each for each in model.parameters() if each.requires_grad]}]


class LabelledText(Dataset):
    """Pieces of a text, each with the number of its package."""

    def __init__(self, text: bytes, package: int) -> None:
        self.text, self.package = Text(text, SHAPE.length), package

    def __len__(self) -> int:
        return len(self.text)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.text[index][0], self.package


def packages() -> tuple[Dataset, Dataset]:
    """Return training data, and every fourth file of each package as test data: the same amount of each."""
    files = [list(sources(name)) for name in PACKAGES]
    training = [b"".join(path.read_bytes() for n, path in enumerate(each) if n % 4) for each in files]
    test = [b"".join(path.read_bytes() for path in each[::4]) for each in files]
    return equal_parts(training), equal_parts(test)


def sources(package: str) -> Iterator[Path]:
    yield from sorted((Path(sysconfig.get_paths()["stdlib"]) / package).rglob("*.py"))


def equal_parts(texts: list[bytes]) -> Dataset:
    """Take the same amount of each text, so that chance is one over the number of packages."""
    length = min(map(len, texts))
    return ConcatDataset([LabelledText(text[:length], number) for number, text in enumerate(texts)])


def accuracy_of(scores: Tensor, packages: Tensor) -> Tensor:
    """Return the accuracy as a loss-like value, which is averaged over all pieces."""
    return (scores.argmax(1) == packages).float().mean()


if __name__ == "__main__":
    main()
