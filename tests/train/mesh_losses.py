"""The losses of one script's loop on a mesh and in one process, which tests compare."""

from __future__ import annotations

import functools
from typing import Any

from forked_ranks import ranks
from windlass_loops import losses

STEPS = 3
CLOSE = 2e-6
"""Difference of losses in fp32 after a few steps, from another order of sums."""
DEEP = {"layers": 4}
"""A model that can be cut into four stages."""


def size(mesh: str) -> int:
    return functools.reduce(lambda product, part: product * int(part.partition("=")[2]), mesh.split(","), 1)


@functools.cache
def alone(layers: int = 2) -> list[float]:
    """The losses of one process. Some steps are clipped, so that a wrong norm is visible in the last loss."""
    return list(ranks(1, losses, "", {"layers": layers}, STEPS)[0])


def losses_on(mesh: str, how: dict[str, Any] | None = None, steps: int = STEPS) -> list[list[float]]:
    """The losses of each rank."""
    return ranks(size(mesh), losses, mesh, how or {}, steps)
