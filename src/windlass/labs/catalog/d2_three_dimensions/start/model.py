"""A small decoder with attention, and the text that it learns. This file needs no change."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

VOCABULARY, WIDTH, HIDDEN, BLOCKS, HEADS, LENGTH = 64, 32, 128, 4, 4, 16


class DecoderBlock(nn.Module):
    """Causal attention and a feed-forward layer, each added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_layers = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query, self.key, self.value, self.mix = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.widen, self.narrow = nn.Linear(WIDTH, HIDDEN, bias=False), nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.before_attention(x))
        return x + self.narrow(F.gelu(self.widen(self.before_layers(x))))

    def attention(self, x: Tensor) -> Tensor:
        heads = (each(x).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for each in (self.query, self.key, self.value))
        mixed = F.scaled_dot_product_attention(*heads, is_causal=True)
        return self.mix(mixed.transpose(1, 2).flatten(2))


class WordDecoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(DecoderBlock() for _ in range(BLOCKS))
        self.last, self.scores = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, text: Tensor) -> Tensor:
        x = self.words(text)
        for block in self.blocks:
            x = block(x)
        return self.scores(self.last(x))


def sentences() -> TensorDataset:
    """Return sequences in which each word is the sum of the two before it, and the same one word later."""
    text = torch.randint(VOCABULARY, (256, LENGTH + 1), generator=torch.Generator().manual_seed(1))
    for place in range(2, LENGTH + 1):
        text[:, place] = (text[:, place - 1] + text[:, place - 2]) % VOCABULARY
    return TensorDataset(text[:, :-1], text[:, 1:])


def loss_of(scores: Tensor, text: Tensor) -> Tensor:
    return F.cross_entropy(scores.flatten(0, 1), text.flatten())
