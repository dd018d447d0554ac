"""Seeds the random numbers of a dataset: separate from those of the rank, by the sample's position alone."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator

import numpy as np
import torch


@contextlib.contextmanager
def isolated_generators() -> Iterator[None]:
    """Let datasets draw inside; restore the rank's CPU generators afterwards."""
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()  # noqa: NPY002 - the generator that datasets use
    try:
        yield
    finally:
        torch.set_rng_state(before[0])
        random.setstate(before[1])
        np.random.set_state(before[2])  # noqa: NPY002


def seed_sample(seed: int, position: int) -> None:
    """Seed the generators for the sample at a position of the run. GPU generators stay unchanged."""
    drawn = hash((seed, position)) & 0x7FFFFFFF
    # Before CUDA is initialized, torch.manual_seed queues each call with its stack for later.
    torch.default_generator.manual_seed(drawn)
    random.seed(drawn)
    np.random.seed(drawn)  # noqa: NPY002


def loader_generator(seed: int) -> torch.Generator:
    """Return a generator for a DataLoader's worker seeds, so that the rank's generator is not used."""
    return torch.Generator().manual_seed(seed)
