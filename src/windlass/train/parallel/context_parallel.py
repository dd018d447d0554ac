"""Context parallelism: each rank has a part of every sequence, and attends to the keys and values of all of it.

Keys and values are gathered before each attention (Llama 3, section 3.3.2). torch's ring attention has GPU kernels
only; this runs wherever `scaled_dot_product_attention` does. Of 2 · cp chunks each rank has one from the front and its
mirror image from the back, which balances the work of causal attention.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed._functional_collectives import all_gather_single_autograd
from torch.nn import functional
from torch.nn.attention.bias import causal_lower_right
from torch.overrides import TorchFunctionMode

from windlass.train.errors import TrainError
from windlass.train.parallel.module_paths import match_modules


def chunk_ranges(length: int, ranks: int, rank: int) -> tuple[range, range]:
    """Return the two chunks of a sequence that a rank has. Pure. Raises TrainError if the length does not divide."""
    if length % (2 * ranks):
        raise TrainError(
            f"cp={ranks}: sequences of {length} cannot be split into {2 * ranks} equal chunks; "
            f"use a length that {2 * ranks} divides"
        )
    size = length // (2 * ranks)
    mirror = 2 * ranks - 1 - rank
    return range(rank * size, (rank + 1) * size), range(mirror * size, (mirror + 1) * size)


class ContextParallel:
    """Splits the sequences of one rank into its chunks, and computes attention over whole sequences."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        self._group, self._ranks, self._rank = group, group.size(), group.rank()
        self._positions: Tensor | None = None
        """Positions of this rank's tokens in the whole sequence, while a model runs."""
        self._length = 0
        self._masks: tuple[Any, ...] = ()
        self._depth = 0
        self.attention_count = 0
        """Number of attention calls over the whole sequence."""
        self.has_position_lookup = False
        """Whether the model may number positions, because a module that looks them up is named in the plan."""

    @contextlib.contextmanager
    def shard(self, length: int, device: torch.device) -> Iterator[Callable[[Any], Any]]:
        """Run a model on its part of sequences of length `length`. The yielded function shards along dimension 1.

        Tensors of another length in that dimension stay unchanged.
        """
        first, second = chunk_ranges(length, self._ranks, self._rank)
        self._positions = torch.tensor([*first, *second], device=device)
        self._length = length
        # Created here, because selective recomputation cannot create tensor subclasses inside its mode.
        self._masks = tuple(causal_lower_right(len(chunk), chunk.stop) for chunk in (first, second))
        with self.attending():
            yield self._shard

    @contextlib.contextmanager
    def attending(self) -> Iterator[None]:
        """Compute attention over the whole sequence inside. Recomputation in the backward pass needs it again."""
        self._depth += 1
        try:
            with _AttentionMode(self):
                yield
        finally:
            self._depth -= 1

    def patch_positions(self, model: nn.Module, patterns: Sequence[str]) -> None:
        """Make position tables, and modules that look positions up, use the positions of this rank's tokens."""
        buffers = dict(model.named_buffers())
        self.has_position_lookup = False
        for pattern in patterns:
            for path in [name for name in buffers if _pattern_matches(pattern, name)] or match_modules(model, pattern):
                if path in buffers:
                    owner, _, name = path.rpartition(".")
                    self._patch_table(model.get_submodule(owner), name)
                else:
                    model.get_submodule(path).register_forward_pre_hook(self._map_positions)
                    self.has_position_lookup = True

    def refuse_unnamed(self, model: nn.Module, patterns: Sequence[str], length: int) -> None:
        """Raise TrainError for an unnamed position table, which each rank would read from its beginning."""
        found = [
            name
            for name, buffer in model.named_buffers()
            if buffer.dim()
            and buffer.shape[0] >= length
            and not any(_pattern_matches(pattern, name) for pattern in patterns)
        ]
        if found:
            raise TrainError(
                f"cp: {found[0]} has a row for each position of a sequence, and each rank has only some positions; "
                f"name it with Plan(positions=({_pattern_of(found[0])!r},))"
            )

    def _shard(self, found: Any) -> Any:
        if isinstance(found, Tensor):
            fits = found.dim() > 1 and found.shape[1] == self._length
            return found.index_select(1, self._local_positions) if fits else found
        if isinstance(found, Mapping):
            return {name: self._shard(each) for name, each in found.items()}
        return tuple(self._shard(each) for each in found) if isinstance(found, tuple | list) else found

    @property
    def _local_positions(self) -> Tensor:
        assert self._positions is not None, "a model runs inside `shard`"  # noqa: S101
        return self._positions

    def _patch_table(self, owner: nn.Module, name: str) -> None:
        whole: list[Tensor] = []

        def swap(*_: Any) -> None:
            if self._depth:
                whole.append(owner.get_buffer(name))
                setattr(owner, name, whole[-1].index_select(0, self._local_positions))

        def restore(*_: Any) -> None:
            if whole:
                setattr(owner, name, whole.pop())

        owner.register_forward_pre_hook(swap)
        owner.register_forward_hook(restore, always_call=True)

    def _map_positions(self, _module: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
        return (self._local_positions[given[0]], *given[1:]) if self._depth else given

    def refuse_arange(self, args: Sequence[Any], named: Mapping[str, Any]) -> None:
        """Raise TrainError for a model that numbers the positions of its part from zero, which would be wrong."""
        names = ("end",) if len(args) == 1 else ("start", "end", "step")
        given = {"start": 0, "step": 1, **dict(zip(names, args, strict=False)), **named}
        if self.has_position_lookup or "end" not in given or given["step"] != 1:
            return
        if given["end"] - given["start"] == len(self._local_positions):
            raise TrainError(
                "cp: the model numbers positions by torch.arange from the start of each rank's part; name the module "
                'that looks them up with Plan(positions=("embed_positions",)), or keep a table of them as a buffer'
            )

    def attend(self, query: Tensor, key: Tensor, value: Tensor, how: Mapping[str, Any]) -> Tensor:
        """Compute attention of this rank's queries, (…, heads, tokens, width) each.

        Raises TrainError for one with a mask.
        """
        if how.get("attn_mask") is not None:
            raise TrainError("cp: attention with an explicit mask cannot be split; use is_causal=True, or no mask")
        self.attention_count += 1
        keys, values = self._gather(key), self._gather(value)
        rest = {name: each for name, each in how.items() if name not in ("attn_mask", "is_causal")}
        if not how.get("is_causal"):
            return functional.scaled_dot_product_attention(query, keys, values, **rest)
        found = []
        chunks = chunk_ranges(keys.shape[-2], self._ranks, self._rank)
        for chunk, seen, queries in zip(chunks, self._masks, query.chunk(2, dim=-2), strict=True):
            mine = (queries, keys[..., : chunk.stop, :], values[..., : chunk.stop, :])
            found.append(functional.scaled_dot_product_attention(*mine, attn_mask=seen, **rest))
        return torch.cat(found, dim=-2)

    def _gather(self, part: Tensor) -> Tensor:
        """Gather the tokens of all ranks in sequence order.

        The backward pass sums each rank's gradients over all ranks.
        """
        every: Tensor = all_gather_single_autograd(part.transpose(0, -2).contiguous(), 0, self._group)
        chunks = every.transpose(0, -2).chunk(2 * self._ranks, dim=-2)
        return torch.cat([*chunks[::2], *chunks[::-2]], dim=-2)


class _AttentionMode(TorchFunctionMode):
    """The mode of torch in which attention is computed by `ContextParallel.attend`."""

    def __init__(self, context: ContextParallel) -> None:
        super().__init__()
        self._context = context

    def __torch_function__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.arange:
            self._context.refuse_arange(args, kwargs or {})
        if function is not functional.scaled_dot_product_attention:
            return function(*args, **(kwargs or {}))
        names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
        given = dict(zip(names, args, strict=False)) | (kwargs or {})
        return self._context.attend(given.pop("query"), given.pop("key"), given.pop("value"), given)


def _pattern_matches(pattern: str, name: str) -> bool:
    parts, others = pattern.split("."), name.split(".")
    return len(parts) == len(others) and all(part in ("*", other) for part, other in zip(parts, others, strict=True))


def _pattern_of(name: str) -> str:
    return ".".join("*" if part.isdigit() else part for part in name.split("."))
