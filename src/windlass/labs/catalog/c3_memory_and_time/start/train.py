"""A decoder that learns to continue a counting sequence. Options select how a step is computed, not what it computes."""

import argparse

import torch
from measure import BLOCKS, StepMeasurement, count
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import Dataset

from windlass import train

WIDTH, LENGTH, VOCABULARY = 128, 128, 64
GLOBAL_BATCH = 16
"""Sequences in one step."""
STEPS = 6


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--ac", default="none", choices=["none", "selective", "full"], help="recomputed activations")
    parser.add_argument("--micro-batch", type=int, help="sequences in one forward pass; gradients are accumulated")
    args = parser.parse_args()
    torch.set_num_threads(1)
    measured = StepMeasurement()
    with train.init(precision=args.precision, ac=args.ac, report_every=0) as run:
        model, optimizer = run.parallelize(lambda: CountingDecoder(measured), train.Plan(), torch.optim.AdamW, lr=1e-3)
        measured.begin()
        data = run.data(Sequences(), global_batch=GLOBAL_BATCH, micro_batch=args.micro_batch)
        for batch in run.steps(data, STEPS):
            loss = run.backward(model, batch, loss_of)
            run.step(optimizer, loss=loss)
            measured.step(loss.item())
    measured.write()


class Block(nn.Module):
    """Attention and a feed-forward layer, each added to its input."""

    def __init__(self, measured: StepMeasurement) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.measured = measured

    def forward(self, x: Tensor) -> Tensor:
        count("block")
        q, k, v = (part.unflatten(-1, (4, -1)).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        self.measured.saw(q.dtype)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class CountingDecoder(nn.Module):
    def __init__(self, measured: StepMeasurement) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Block(measured) for _ in range(BLOCKS))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, text: Tensor) -> Tensor:
        count("model")
        count("sequences", len(text))
        x = self.embed(text)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Sequences(Dataset):
    """Sequence number n counts from n in steps of n % 7 + 1."""

    def __len__(self) -> int:
        return 4096

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        text = (index + (index % 7 + 1) * torch.arange(LENGTH + 1)) % VOCABULARY
        return text[:-1], text[1:]


def loss_of(scores: Tensor, text: Tensor) -> Tensor:
    return F.cross_entropy(scores.flatten(0, 1), text.flatten())


if __name__ == "__main__":
    main()
