"""What a person may say of how a model is to be split; what is not said is found out from the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Style = Literal["colwise", "rowwise", "sequence", "embedding", "head"]
"""How one module is split over `tp`. With sequence parallelism activations between blocks are split along the sequence.

colwise: a Linear by its outputs; takes the whole sequence. rowwise: by its inputs; gives its part of the sequence.
sequence: a norm or a dropout on each rank's part of the sequence. embedding: gives its part of the sequence.
head: the last Linear by its outputs; takes a part of the sequence, gives all logits (its own for loss parallelism).
"""
Schedule = Literal["gpipe", "1f1b", "interleaved", "zero-bubble", "zbv"]
Recompute = Literal["none", "selective", "full"]


@dataclass(frozen=True, slots=True)
class Plan:
    """Paths of modules are as in `named_modules`; `*` stands for one part of a path."""

    blocks: tuple[str, ...] = ()
    """Repeated parts, each sharded, recomputed and compiled by itself. Default: the largest list of equal modules."""
    tensor: Mapping[str, Style] = field(default_factory=dict)
    """Path → style, over `tp`. Default: by the names that transformers use (`tensor.NAMES`)."""
    pipeline: tuple[str, ...] = ()
    """The modules of which `forward` is the chain, in order. Default: the parts of an `nn.Sequential`."""
    schedule: Schedule = "1f1b"
    stages_per_rank: int = 1
    """Of the interleaved schedules; 2 if nothing is said."""
    positions: tuple[str, ...] = ()
    """Over `cp`: what knows the places of a sequence. Buffers with a row for each, and modules that look places up."""
    loss_parallel: bool = False
    """Cross entropy on logits that stay split over `tp`."""
    compiles: bool = False
    """Each block by `torch.compile`."""
