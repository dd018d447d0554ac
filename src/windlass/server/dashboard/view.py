"""A view with the parameters that its request means, however they are written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class View:
    """A view of one audience. Views with equal keys have the same answer at one version of the state."""

    key: tuple[Hashable, ...]
    """Name of the view, and its parsed parameters."""
    produce: Callable[[], Awaitable[Any]]
    """Computes the answer. Raises ApiError, BackendError."""
    stamp: Callable[[], Awaitable[str]] | None = None
    """Returns the state of the records that the answer is computed from; None: it changes with the controller's state.
    """
    turn: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    """Waits until the visitor who asks may have an answer computed; lasts for the computation. Raises ApiError."""
