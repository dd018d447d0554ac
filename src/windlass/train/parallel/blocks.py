"""Transforms the repeated blocks of a model: activation recomputation and compilation."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

from windlass.train.errors import TrainError
from windlass.train.parallel.plan import Recompute

_SAVED_OPERATORS = frozenset(
    {
        torch.ops.aten.mm.default,
        torch.ops.aten.addmm.default,
        torch.ops.aten.bmm.default,
        torch.ops.aten._scaled_dot_product_flash_attention.default,  # noqa: SLF001 - names of operators
        torch.ops.aten._scaled_dot_product_efficient_attention.default,  # noqa: SLF001
        torch.ops.aten._scaled_dot_product_cudnn_attention.default,  # noqa: SLF001
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default,  # noqa: SLF001
        torch.ops.aten._scaled_mm.default,  # noqa: SLF001 - float8
    }
)
"""Operators whose results are expensive: `selective` keeps these and recomputes all others."""


Context = Callable[[], contextlib.AbstractContextManager[Any]]


def wrap_recomputation(
    model: nn.Module, paths: Sequence[str], how: Recompute, again: Context = contextlib.nullcontext
) -> None:
    """Wrap each block for recomputation, in place. `again`: a context around recomputation.

    Raises TrainError if there is no block to wrap.
    """
    if how == "none":
        return
    if not paths:
        raise TrainError(f"ac={how}: {type(model).__name__} has no repeated blocks; name them with Plan(blocks=(…,))")
    for path in paths:
        _replace(model, path, checkpoint_wrapper(model.get_submodule(path), **_context_options(how, again)))


def compile_blocks(model: nn.Module, paths: Sequence[str]) -> None:
    """Compile each block, in place: names stay the same, and equal blocks share one compilation."""
    for path in paths:
        model.get_submodule(path).compile()


def _context_options(how: Recompute, again: Context) -> dict[str, Any]:
    def contexts() -> tuple[Any, Any]:
        if how == "full":
            return contextlib.nullcontext(), again()
        first, second = create_selective_checkpoint_contexts(_policy)
        return first, _nested(second, again())

    return {"context_fn": contexts}


@contextlib.contextmanager
def _nested(first: Any, second: Any) -> Iterator[None]:
    with first, second:
        yield


def _policy(_context: Any, operator: Any, *_: Any, **__: Any) -> CheckpointPolicy:
    return CheckpointPolicy.MUST_SAVE if operator in _SAVED_OPERATORS else CheckpointPolicy.PREFER_RECOMPUTE


def _replace(model: nn.Module, path: str, module: nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    model.get_submodule(parent).register_module(name, module)
