"""Small models of the tests, with the relevant layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

VOCABULARY, WIDTH, HEADS = 64, 32, 4


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wq = nn.Linear(WIDTH, WIDTH, bias=False)
        self.wk = nn.Linear(WIDTH, WIDTH, bias=False)
        self.wv = nn.Linear(WIDTH, WIDTH, bias=False)
        self.wo = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = (f(x).view(batch, length, -1, WIDTH // HEADS).transpose(1, 2) for f in (self.wq, self.wk, self.wv))
        found = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(found.transpose(1, 2).reshape(batch, length, -1))


class FeedForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w1 = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.w2 = nn.Linear(2 * WIDTH, WIDTH, bias=False)
        self.w3 = nn.Linear(WIDTH, 2 * WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.w2(nn.functional.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.attention_norm, self.ffn_norm = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.attention, self.feed_forward = Attention(), FeedForward()
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        return self.dropout(x + self.feed_forward(self.ffn_norm(x)))


class Decoder(nn.Module):
    def __init__(self, layers: int = 4, dropout: float = 0.0) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Block(dropout) for _ in range(layers))
        self.norm = nn.RMSNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class Placed(Decoder):
    """A decoder with positions: a table of them, and an embedding of their numbers."""

    def __init__(self, layers: int = 4, knows: str = "table numbered") -> None:
        super().__init__(layers)
        self.knows = knows
        if "table" in knows:
            self.register_buffer("turns", torch.randn(32, WIDTH))
        if "numbered" in knows:
            self.places = nn.Embedding(32, WIDTH)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        if "table" in self.knows:
            x = x + self.turns[: tokens.shape[1]]
        if "numbered" in self.knows:
            x = x + self.places(torch.arange(tokens.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def tokens(samples: int, length: int = 16) -> list[tuple[Tensor, Tensor]]:
    drawn = torch.randint(VOCABULARY, (samples, length + 1), generator=torch.Generator().manual_seed(5))
    return [(each[:-1], each[1:]) for each in drawn]


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
