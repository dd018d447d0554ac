"""Options for splitting a model; unspecified ones are inferred from the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Style = Literal["colwise", "rowwise", "sequence", "embedding", "head"]
"""Split of one module over `tp`. With sequence parallelism, activations between blocks are split by sequence.

colwise: a Linear by its outputs; takes the whole sequence. rowwise: by its inputs; returns its part of the sequence.
sequence: a norm or a dropout on each rank's part of the sequence. embedding: returns its part of the sequence. head:
the last Linear by its outputs; takes a part of the sequence, returns all logits (its own for loss parallelism).
"""
Schedule = Literal["gpipe", "1f1b", "interleaved", "zero-bubble", "zbv"]
Recompute = Literal["none", "selective", "full"]


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan for splitting a model. Module paths are as in `named_modules`; `*` stands for one part of a path."""

    blocks: tuple[str, ...] = ()
    """Repeated modules that are sharded, recomputed and compiled one by one. Default: the largest list of equal
    modules."""
    tensor: Mapping[str, Style] = field(default_factory=dict)
    """Path → style, over `tp`. Default: by the names that transformers use (`tensor_parallel.STYLE_NAMES`)."""
    pipeline: tuple[str, ...] = ()
    """The modules that `forward` calls as a chain, in order. Default: the parts of an `nn.Sequential`."""
    schedule: Schedule = "1f1b"
    stages_per_rank: int = 1
    """Stages of each rank: 1 for gpipe and 1f1b, 2 for zbv, at least 2 for interleaved and zero-bubble."""
    positions: tuple[str, ...] = ()
    """Over `cp`: position tables (buffers with a row for each position), and modules that look positions up."""
    loss_parallel: bool = False
    """Whether cross entropy runs on logits that stay split over `tp`."""
    compiles: bool = False
    """Whether each block is compiled by `torch.compile`."""
