from __future__ import annotations

import gc
import weakref

import pytest

from windlass.server.garbage_collection import collect_rarely


@pytest.fixture(autouse=True)
def _as_before():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


class Ring:
    def __init__(self) -> None:
        self.itself = self


def test_existing_objects_are_frozen_and_new_garbage_is_collected_in_the_end():
    gc.collect()
    collect_rarely()
    assert gc.get_freeze_count() > 10_000
    lost = weakref.ref(Ring())
    few = [[] for _ in range(10_000)]
    assert lost() is not None
    many = [[] for _ in range(20_000)]
    assert lost() is None, few or many
