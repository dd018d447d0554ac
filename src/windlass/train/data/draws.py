"""What a dataset draws at random: apart from what the rank draws, and a function of the sample's place alone."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator

import numpy as np
import torch


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """Within it datasets draw; after it the rank's generators on the CPU are as they were."""
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()  # noqa: NPY002 - what datasets draw from
    try:
        yield
    finally:
        torch.set_rng_state(before[0])
        random.setstate(before[1])
        np.random.set_state(before[2])  # noqa: NPY002


def begin(seed: int, place: int) -> None:
    """What is drawn next is the sample's of that place in the run. Generators of GPUs stay as they are."""
    drawn = hash((seed, place)) & 0x7FFFFFFF
    # Without a GPU at work, torch.manual_seed keeps each call, with its stack, for the day that there is one.
    torch.default_generator.manual_seed(drawn)
    random.seed(drawn)
    np.random.seed(drawn)  # noqa: NPY002


def generator(seed: int) -> torch.Generator:
    """For a DataLoader, which draws a seed for its workers: from this one, so that the rank's stays as it was."""
    return torch.Generator().manual_seed(seed)
