"""Finds modules by path patterns, and the repeated blocks of a model."""

from __future__ import annotations

import re
from collections.abc import Iterable

from torch import nn

from windlass.train.errors import TrainError


def match_modules(model: nn.Module, pattern: str) -> list[str]:
    """Return the paths of the modules that match a pattern, in the model's order.

    Raises TrainError if there are none.
    """
    wanted = re.compile(r"[^.]+".join(map(re.escape, pattern.split("*"))))
    found = [path for path, _ in model.named_modules() if wanted.fullmatch(path)]
    if not found:
        known = ", ".join(path for path, _ in model.named_children())
        raise TrainError(f"{pattern}: {type(model).__name__} has no module of that path; it has {known}")
    return found


def find_blocks(model: nn.Module, patterns: Iterable[str]) -> list[str]:
    """Return the blocks that `patterns` name, or else the members of the list of equal modules with most parameters."""
    named = [path for pattern in patterns for path in match_modules(model, pattern)]
    if named:
        return named
    lists = [
        (sum(each.numel() for each in module.parameters()), path, module)
        for path, module in model.named_modules()
        if isinstance(module, nn.ModuleList | nn.ModuleDict | nn.Sequential) and _are_alike(module)
    ]
    if not lists:
        return []
    _, path, found = max(lists, key=lambda each: each[0])
    return [f"{path}.{name}" if path else name for name, _ in found.named_children()]


def has_module(model: nn.Module, path: str) -> bool:
    """Whether the model has a module of that path."""
    try:
        model.get_submodule(path)
    except AttributeError:
        return False
    return True


def _are_alike(modules: nn.Module) -> bool:
    kinds = {type(module) for module in modules.children()}
    return len(kinds) == 1 and len(list(modules.children())) > 1 and any(True for _ in modules.parameters())
