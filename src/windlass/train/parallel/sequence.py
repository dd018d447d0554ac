"""Context parallelism: each rank has a part of every sequence, and attends to the keys and values of all of it.

Keys and values are gathered before each attention (Llama 3, section 3.3.2); torch's ring attention has kernels for
GPUs, and this runs wherever `scaled_dot_product_attention` does. Of 2 · cp chunks a rank has one from the front and its
mirror image from the back, so that causal attention is as much work for each.
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
from windlass.train.parallel.paths import matching


def chunks_of(length: int, ranks: int, rank: int) -> tuple[range, range]:
    """The two chunks of a sequence that a rank has. Pure. Raises TrainError if it does not divide."""
    if length % (2 * ranks):
        raise TrainError(
            f"cp={ranks}: sequences of {length} do not make {2 * ranks} equal chunks; a length that {2 * ranks} divides"
        )
    size = length // (2 * ranks)
    mirror = 2 * ranks - 1 - rank
    return range(rank * size, (rank + 1) * size), range(mirror * size, (mirror + 1) * size)


class Sequences:
    """The sequences of one rank: cut into its chunks, and attention over all of them."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        self._group, self._ranks, self._rank = group, group.size(), group.rank()
        self._places: Tensor | None = None
        """Of this rank's tokens in the whole sequence, while a model runs."""
        self._length = 0
        self._seen: tuple[Any, ...] = ()
        self._depth = 0
        self.attended = 0
        """Attentions that went over the whole sequence."""
        self.numbers_places = False
        """Whether the model may number places: a module that looks them up has been named."""

    @contextlib.contextmanager
    def cut(self, length: int, device: torch.device) -> Iterator[Callable[[Any], Any]]:
        """Within it a model runs on its part of sequences of that length; what is given cuts tensors along dimension 1.

        Tensors that have another length there stay as they are.
        """
        first, second = chunks_of(length, self._ranks, self._rank)
        self._places = torch.tensor([*first, *second], device=device)
        self._length = length
        # Made here, as within selective recomputation torch makes no tensors of a kind of their own.
        self._seen = tuple(causal_lower_right(len(chunk), chunk.stop) for chunk in (first, second))
        with self.attending():
            yield self._cut

    @contextlib.contextmanager
    def attending(self) -> Iterator[None]:
        """Within it attention is over the whole sequence. Recomputation in the backward pass needs it again."""
        self._depth += 1
        try:
            with _Attending(self):
                yield
        finally:
            self._depth -= 1

    def place(self, model: nn.Module, patterns: Sequence[str]) -> None:
        """Have tables of places, and modules that look places up, see those of this rank's tokens."""
        buffers = dict(model.named_buffers())
        self.numbers_places = False
        for pattern in patterns:
            for path in [name for name in buffers if _means(pattern, name)] or matching(model, pattern):
                if path in buffers:
                    owner, _, name = path.rpartition(".")
                    self._place_table(model.get_submodule(owner), name)
                else:
                    model.get_submodule(path).register_forward_pre_hook(self._looked_up)
                    self.numbers_places = True

    def refuse_unnamed(self, model: nn.Module, patterns: Sequence[str], length: int) -> None:
        """Raises TrainError for a table of places that nobody has named: it would be read from its beginning."""
        found = [
            name
            for name, buffer in model.named_buffers()
            if buffer.dim() and buffer.shape[0] >= length and not any(_means(pattern, name) for pattern in patterns)
        ]
        if found:
            raise TrainError(
                f"cp: {found[0]} has rows for the places of a sequence, and each rank has only some of these; "
                f"tell: Plan(positions=({_pattern(found[0])!r},))"
            )

    def _cut(self, found: Any) -> Any:
        if isinstance(found, Tensor):
            fits = found.dim() > 1 and found.shape[1] == self._length
            return found.index_select(1, self._here) if fits else found
        if isinstance(found, Mapping):
            return {name: self._cut(each) for name, each in found.items()}
        return tuple(self._cut(each) for each in found) if isinstance(found, tuple | list) else found

    @property
    def _here(self) -> Tensor:
        assert self._places is not None, "a model runs within `cut`"  # noqa: S101
        return self._places

    def _place_table(self, owner: nn.Module, name: str) -> None:
        whole: list[Tensor] = []

        def swap(*_: Any) -> None:
            if self._depth:
                whole.append(owner.get_buffer(name))
                setattr(owner, name, whole[-1].index_select(0, self._here))

        def restore(*_: Any) -> None:
            if whole:
                setattr(owner, name, whole.pop())

        owner.register_forward_pre_hook(swap)
        owner.register_forward_hook(restore, always_call=True)

    def _looked_up(self, _module: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
        return (self._here[given[0]], *given[1:]) if self._depth else given

    def refuse_numbering(self, args: Sequence[Any], named: Mapping[str, Any]) -> None:
        """A model that counts the places of its part one by one has them wrong. Raises TrainError."""
        names = ("end",) if len(args) == 1 else ("start", "end", "step")
        given = {"start": 0, "step": 1, **dict(zip(names, args, strict=False)), **named}
        if self.numbers_places or "end" not in given or given["step"] != 1:
            return
        if given["end"] - given["start"] == len(self._here):
            raise TrainError(
                "cp: the model numbers places by torch.arange, one after the other on each rank; name the module that "
                'looks them up: Plan(positions=("embed_positions",)), or keep a table of them as a buffer'
            )

    def attend(self, query: Tensor, key: Tensor, value: Tensor, how: Mapping[str, Any]) -> Tensor:
        """Attention of this rank's queries, (…, heads, tokens, width) each. Raises TrainError for one with a mask."""
        if how.get("attn_mask") is not None:
            raise TrainError("cp: attention with a mask of its own is not split; is_causal=True, or none")
        self.attended += 1
        keys, values = self._gathered(key), self._gathered(value)
        rest = {name: each for name, each in how.items() if name not in ("attn_mask", "is_causal")}
        if not how.get("is_causal"):
            return functional.scaled_dot_product_attention(query, keys, values, **rest)
        found = []
        chunks = chunks_of(keys.shape[-2], self._ranks, self._rank)
        for chunk, seen, queries in zip(chunks, self._seen, query.chunk(2, dim=-2), strict=True):
            mine = (queries, keys[..., : chunk.stop, :], values[..., : chunk.stop, :])
            found.append(functional.scaled_dot_product_attention(*mine, attn_mask=seen, **rest))
        return torch.cat(found, dim=-2)

    def _gathered(self, part: Tensor) -> Tensor:
        """All ranks' tokens in their order. In the backward pass each rank's are summed up over all."""
        every: Tensor = all_gather_single_autograd(part.transpose(0, -2).contiguous(), 0, self._group)
        chunks = every.transpose(0, -2).chunk(2 * self._ranks, dim=-2)
        return torch.cat([*chunks[::2], *chunks[::-2]], dim=-2)


class _Attending(TorchFunctionMode):
    def __init__(self, sequences: Sequences) -> None:
        super().__init__()
        self._sequences = sequences

    def __torch_function__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.arange:
            self._sequences.refuse_numbering(args, kwargs or {})
        if function is not functional.scaled_dot_product_attention:
            return function(*args, **(kwargs or {}))
        names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
        given = dict(zip(names, args, strict=False)) | (kwargs or {})
        return self._sequences.attend(given.pop("query"), given.pop("key"), given.pop("value"), given)


def _means(pattern: str, name: str) -> bool:
    parts, others = pattern.split("."), name.split(".")
    return len(parts) == len(others) and all(part in ("*", other) for part, other in zip(parts, others, strict=True))


def _pattern(name: str) -> str:
    return ".".join("*" if part.isdigit() else part for part in name.split("."))
