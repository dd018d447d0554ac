"""The phases of a save: the agent compares ranks by the number of phases that they have entered."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from windlass.train.run_saves import RunSaves


@pytest.mark.parametrize("in_flight", [None, 10])
def test_all_ranks_enter_the_same_phases_whether_or_not_their_part_of_the_last_save_has_ended(in_flight):
    entered = {True: [], False: []}
    for is_busy, phases in entered.items():
        saver = SimpleNamespace(in_flight=in_flight)
        retrying = SimpleNamespace(saver=saver, is_busy=is_busy and in_flight is not None, save=lambda *_: None)
        saves = RunSaves.__new__(RunSaves)
        saves.retrying, saves._run = retrying, SimpleNamespace(steps_done=20, during=_recorder(phases))
        saves.save()
    assert entered[True] == entered[False] == (["save"] if in_flight else [])


def _recorder(phases):
    def during(phase):
        phases.append(phase)
        return nullcontext()

    return during
