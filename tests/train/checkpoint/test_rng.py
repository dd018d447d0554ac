import random

import numpy as np
import pytest
import torch

from windlass.train.checkpoint import rng_state


def drawn():
    of_numpy = float(np.random.random()), float(np.random.normal())  # noqa: NPY002 - the one that is captured
    return random.random(), random.gauss(0, 1), float(torch.rand(())), *of_numpy  # noqa: S311


@pytest.fixture(autouse=True)
def _as_before():
    before = rng_state.capture()
    yield
    rng_state.restore(before)


def test_what_comes_next_is_drawn_again():
    drawn()
    taken = rng_state.capture()
    first = drawn()
    drawn()
    rng_state.restore(taken)
    assert drawn() == first


def test_a_rank_without_a_past_is_seeded_by_where_it_is():
    def at(seed, rank, step):
        rng_state.reseed(seed, rank, step)
        return drawn()

    assert at(1, 2, 3) == at(1, 2, 3)
    assert len({at(seed, rank, step) for seed in (1, 2) for rank in (0, 1, 2) for step in (0, 500)}) == 12


def test_numpy_is_left_alone_where_it_is_not_loaded(monkeypatch):
    monkeypatch.delitem(rng_state.sys.modules, "numpy")
    assert b"numpy" not in rng_state.capture()
