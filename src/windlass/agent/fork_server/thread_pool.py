"""Renews torch's thread pool in a forked child. Without that, threads of the child that compute at once may abort.

`torch.set_num_threads` creates the pool. After a fork, the first thread that computes replaces it, with no lock, and a
second one meanwhile finds none ("pool INTERNAL ASSERT FAILED", torch 2.13, aten/src/ATen/ParallelOpenMP.cpp).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import ModuleType


class ThreadPool:
    """Torch's thread pool: whether the fork server has created one. torch is a module that the agent does without."""

    def __init__(self) -> None:
        self._torch: ModuleType | None = None
        """Set once the pool exists."""

    @contextlib.contextmanager
    def watch(self, torch: ModuleType) -> Iterator[None]:
        """Notes whether modules imported meanwhile create the pool."""
        set_num_threads = torch.set_num_threads

        def set_and_note(number: int) -> None:
            set_num_threads(number)
            self._torch = torch

        torch.set_num_threads = set_and_note  # type: ignore[attr-defined]
        yield
        torch.set_num_threads = set_num_threads  # type: ignore[attr-defined]

    def renew(self) -> None:
        """Replaces the pool of the parent process by one of as many threads, while this process has one thread.

        Creates none where there was none: its threads would be forked by processes that the rank forks.
        """
        if self._torch is not None:
            self._torch.set_num_threads(self._torch.get_num_threads())
