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


def test_restored_generators_draw_the_same_numbers():
    drawn()
    taken = rng_state.capture()
    first = drawn()
    drawn()
    rng_state.restore(taken)
    assert drawn() == first


def test_a_rank_without_saved_generators_is_seeded_by_rank_and_step():
    def at(seed, rank, step):
        rng_state.reseed(seed, rank, step)
        return drawn()

    assert at(1, 2, 3) == at(1, 2, 3)
    assert len({at(seed, rank, step) for seed in (1, 2) for rank in (0, 1, 2) for step in (0, 500)}) == 12


def test_numpy_is_not_imported_where_the_run_has_not_loaded_it(monkeypatch):
    monkeypatch.delitem(rng_state.sys.modules, "numpy")
    assert b"numpy" not in rng_state.capture()
