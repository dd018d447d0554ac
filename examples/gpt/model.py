"""A Llama-style decoder: rotary position embedding, RMS norms, gated feed-forward layers, no biases.

Plain PyTorch, with the names that transformers use, from which `windlass.train` infers how to split it. Its `forward`
is the chain embed → layers → norm → head, which is all that a pipeline needs to know.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Shape:
    """Sizes of the model."""

    vocabulary: int = 256
    width: int = 128
    layers: int = 6
    heads: int = 4
    length: int = 96
    """Context length in bytes."""
    hidden: int = 352
    """Width of a feed-forward layer: about 8/3 of the width, as in Llama."""
    kv_heads: int = 0
    """Fewer keys and values than heads, each shared by several (Ainslie et al. 2023). 0: as many as heads."""
    rope_base: float = 10_000.0
    """Base of the rotation frequencies by position; Llama 3 has 500,000."""


class Attention(nn.Module):
    """Causal attention. Under tensor parallelism a rank has some of the heads."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.head_width = shape.width // shape.heads
        kv_width = self.head_width * (shape.kv_heads or shape.heads)
        self.is_shared = kv_width < shape.width
        widths = (shape.width, kv_width, kv_width, shape.width)
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(shape.width, width, bias=False) for width in widths)
        self.register_buffer("turns", rotations(shape.length, self.head_width, shape.rope_base), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = (project(x).view(batch, length, -1, self.head_width) for project in (self.wq, self.wk, self.wv))
        q, k = rotate(q, self.turns[:length]), rotate(k, self.turns[:length])
        q, k, v = (each.transpose(1, 2) for each in (q, k, v))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.is_shared)
        return self.wo(attended.transpose(1, 2).reshape(batch, length, -1))


class FeedForward(nn.Module):
    """A gated feed-forward layer (Shazeer 2020)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.w1, self.w3 = (nn.Linear(shape.width, shape.hidden, bias=False) for _ in range(2))
        self.w2 = nn.Linear(shape.hidden, shape.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    """Attention and a feed-forward layer, each added to its input."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.attention_norm, self.attention = nn.RMSNorm(shape.width), Attention(shape)
        self.ffn_norm, self.feed_forward = nn.RMSNorm(shape.width), FeedForward(shape)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.ffn_norm(x))


class Decoder(nn.Module):
    """The decoder: bytes in, scores for each next byte out."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embed = nn.Embedding(shape.vocabulary, shape.width)
        self.layers = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm, self.head = nn.RMSNorm(shape.width), nn.Linear(shape.width, shape.vocabulary, bias=False)
        nn.init.normal_(self.embed.weight, std=0.02)

    def forward(self, text: Tensor) -> Tensor:
        x = self.embed(text)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def rotations(length: int, width: int, rope_base: float) -> Tensor:
    """Return the rotation of pairs of numbers by position (Su et al. 2021): cosine and sine, (length, 1, width/2, 2).

    In fp32 for any parameter type: distant positions would coincide in bf16.
    """
    frequencies = rope_base ** (-torch.arange(0, width, 2, dtype=torch.float32) / width)
    angles = torch.outer(torch.arange(length, dtype=torch.float32), frequencies)
    return torch.stack([angles.cos(), angles.sin()], dim=-1).unsqueeze(1)


def rotate(x: Tensor, turns: Tensor) -> Tensor:
    """Rotate pairs of numbers by position. `x`: (batch, length, heads, width); `turns`: from `rotations`."""
    a, b = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = turns.unbind(-1)
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2).type_as(x)


@torch.no_grad()
def sample(score: nn.Module, shape: Shape, prompt: str, length: int, device: torch.device) -> str:
    """Return the prompt and `length` bytes drawn from the model, at temperature 0.7."""
    text = torch.tensor([list(prompt.encode())], device=device)
    for _ in range(length):
        scores = score(text[:, -shape.length :])[:, -1] / 0.7
        text = torch.cat([text, torch.multinomial(scores.softmax(-1), 1)], dim=1)
    return bytes(text[0].tolist()).decode(errors="replace")
