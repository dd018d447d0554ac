"""Measures the sizes of a torch module on the meta device: parameters, kept activations and operations, no memory.

Imports torch: import this module only to plan a module.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from windlass.hardware.errors import PlanError
from windlass.hardware.training.model_size import PRECISIONS, ModelSize
from windlass.train.parallel.module_paths import find_blocks

_INPUT = re.compile(r"(\d+(?:x\d+)*)(?::(\w+))?")
_IN_HEAD = 3
"""Tensors of the size of the output at the loss: the output, what the loss keeps, and the gradient."""


def parse_input(text: str) -> tuple[tuple[int, ...], torch.dtype]:
    """Returns shape and type of one sample's input, as "1024:int64" or "3x224x224". Raises PlanError."""
    found = _INPUT.fullmatch(text)
    dtype = getattr(torch, (found[2] or "float32") if found else "", None)
    if not found or not isinstance(dtype, torch.dtype):
        raise PlanError(f"--input {text!r}: shape and type of one sample, as 1024:int64 or 3x224x224:float32")
    return tuple(int(part) for part in found[1].split("x")), dtype


def load_builder(text: str) -> Callable[[], nn.Module]:
    """Returns the function or class `name` of "file.py:name". Raises PlanError."""
    file, _, name = text.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise PlanError(f"{file}: there is no such file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise PlanError(f"{file}: no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # noqa: BLE001 - code of the user
        raise PlanError(f"{file}: {type(error).__name__}: {error}") from None
    finally:
        sys.path.pop(0)
    found = getattr(module, name, None)
    if not callable(found):
        raise PlanError(f"{file} has no function or class {name!r}")
    build: Callable[[], nn.Module] = found if not isinstance(found, nn.Module) else lambda: found
    return build


def size_module(
    build: Callable[[], nn.Module], sample: str, precision: str, name: str, *, fused_dropout: bool = True
) -> ModelSize:
    """Returns the sizes of the module that `build` returns, for inputs of one shape. Raises PlanError.

    The module runs forward once on the meta device, with attention as one fused operator. Hooks of autograd count what
    the backward pass would need, each storage once and parameters not at all. `fused_dropout`: whether attention with
    dropout of its scores is fused too, as on GPUs; a CPU keeps the scores.
    """
    shape, dtype = parse_input(sample)
    try:
        with torch.device("meta"):
            module = build().to("meta")
            traced = _trace(module, torch.zeros((1, *shape), dtype=dtype), precision, fused_dropout=fused_dropout)
    except Exception as error:
        raise PlanError(f"{name}: could not run on the meta device: {type(error).__name__}: {error}") from error
    counter, blocks, output, flops = traced
    saved = counter.total
    paths = find_blocks(module, ())
    parameters = _count(module)
    block_parameters = max((_count(module.get_submodule(path)) for path in paths), default=parameters)
    block_saved = max((block[1] for block in blocks), default=counter.largest)
    return ModelSize(
        name=name,
        parameters=parameters,
        block_parameters=block_parameters,
        blocks=len(paths) or 1,
        saved=saved,
        block_saved=block_saved,
        inputs=saved - sum(kept - given for given, kept in blocks),
        head=_IN_HEAD * output,
        workspace=2 * counter.largest,
        flops=3.0 * flops,
        tokens=shape[0] if not dtype.is_floating_point else 1,
        width=shape[-1],
        value_bytes=PRECISIONS[precision],
    )


def _trace(
    module: nn.Module, inputs: torch.Tensor, precision: str, *, fused_dropout: bool
) -> tuple[_SavedTensors, list[tuple[int, int]], int, int]:
    """Returns kept tensors, (input, kept) bytes of each block, bytes of the output, and operations of the forward."""
    counter = _SavedTensors({parameter.untyped_storage()._cdata for parameter in module.parameters()})  # noqa: SLF001
    blocks = [module.get_submodule(path) for path in find_blocks(module, ())]
    with (
        _fused_attention(with_dropout=fused_dropout) as attention,
        counter.counts_of(blocks) as counts,
        FlopCounterMode(display=False) as flops,
        torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"),
        torch.autograd.graph.saved_tensors_hooks(counter.add, lambda packed: packed),
    ):
        output = module(inputs)
    size = sum(tensor.numel() * tensor.element_size() for tensor in _tensors(output))
    return counter, counts, size, flops.get_total_flops() + sum(attention)


class _FusedAttention(torch.autograd.Function):
    """Attention that keeps queries, keys, values and the result, as the fused kernels do; the values are not computed.

    The meta device has only the unfused operator, which keeps all scores. The heads of a token are neighbours in the
    result, so that a module joins them without a copy.
    """

    @staticmethod
    def forward(ctx: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        shape = (*query.shape[:-1], value.shape[-1])
        order = (0, 2, 1, 3) if len(shape) == 4 else range(len(shape))
        result = query.new_empty([shape[axis] for axis in order]).permute(*order)
        ctx.save_for_backward(query, key, value, result)
        return result


@contextmanager
def _fused_attention(*, with_dropout: bool) -> Iterator[list[int]]:
    """Replaces scaled dot-product attention by `_FusedAttention`; yields a list that receives its operations.

    Attention with dropout of its scores stays unfused without `with_dropout`. It keeps the scaled queries and keys, the
    values, and three tensors of the size of the scores: the softmax, the mask, and their product.
    """
    flops: list[int] = []

    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *more: Any, **named: Any) -> torch.Tensor:
        dropout = named.get("dropout_p", more[1] if len(more) > 1 else 0.0)
        if dropout and not with_dropout:
            return original(query, key, value, *more, **named)
        flops.append(2 * query.shape[:-1].numel() * key.shape[-2] * (query.shape[-1] + value.shape[-1]))
        result: torch.Tensor = _FusedAttention.apply(query, key, value)  # type: ignore[no-untyped-call]
        return result

    original = nn.functional.scaled_dot_product_attention
    nn.functional.scaled_dot_product_attention = attend
    try:
        yield flops
    finally:
        nn.functional.scaled_dot_product_attention = original


class _SavedTensors:
    """Sums the storages that autograd keeps; `known` storages are those of parameters."""

    def __init__(self, known: set[int]) -> None:
        self._known = known
        self._kept: list[torch.Tensor] = []
        self.total = 0
        self.largest = 0

    def add(self, tensor: torch.Tensor) -> torch.Tensor:
        """Counts a tensor's storage at its first occurrence; it stays alive, so that no address occurs twice."""
        storage = tensor.untyped_storage()
        if storage._cdata not in self._known:  # noqa: SLF001 - the identity of a storage without memory
            self._known.add(storage._cdata)  # noqa: SLF001
            self._kept.append(tensor)
            self.total += storage.nbytes()
            self.largest = max(self.largest, storage.nbytes())
        return tensor

    @contextmanager
    def counts_of(self, blocks: Sequence[nn.Module]) -> Iterator[list[tuple[int, int]]]:
        """Yields a list that receives (bytes of the inputs, kept bytes) of each block as it runs."""
        counts: list[tuple[int, int]] = []
        before: list[int] = []

        def start(_: nn.Module, __: tuple[Any, ...]) -> None:
            before.append(self.total)

        def end(_: nn.Module, inputs: tuple[Any, ...], __: object) -> None:
            given = sum(tensor.numel() * tensor.element_size() for tensor in _tensors(inputs))
            counts.append((given, self.total - before.pop()))

        handles = [block.register_forward_pre_hook(start) for block in blocks]
        handles += [block.register_forward_hook(end) for block in blocks]
        try:
            yield counts
        finally:
            for handle in handles:
                handle.remove()


def _tensors(value: object) -> Iterator[torch.Tensor]:
    """Yields the tensors of nested tuples, lists and mappings."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _tensors(each)
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _tensors(each)


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
