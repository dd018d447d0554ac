"""The state after an aborted step is that before it, whether a buffer was changed in place or replaced."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from windlass.train.recovery.step_snapshot import StepSnapshot


class Averaged(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("ema", torch.zeros(3))
        self.register_buffer("seen", None)
        self.inner = nn.BatchNorm1d(3)


@pytest.fixture
def model():
    return Averaged()


@pytest.fixture
def snapshot(model):
    return StepSnapshot([SimpleNamespace(module=model)], [], {})


def assign(model):
    model.ema = model.ema * 0.9 + 0.1


def change(model):
    model.ema.mul_(0.9).add_(0.1)


def change_and_assign(model):
    change(model)
    assign(model)


@pytest.mark.parametrize("step", [assign, change, change_and_assign])
def test_buffers_are_restored_to_the_start_of_the_step(model, snapshot, step):
    for _ in range(3):  # completed steps
        snapshot.take()
        step(model)
    snapshot.take()
    before, same = model.ema.clone(), model.ema
    step(model)
    assert not torch.equal(model.ema, before)
    snapshot.restore()
    assert torch.equal(model.ema, before)
    assert model.ema is same


def test_an_unset_buffer_is_unset_after_the_restore(model, snapshot):
    snapshot.take()
    model.seen = torch.ones(2)
    snapshot.restore()
    assert model.seen is None


def test_unchanged_buffers_are_not_copied_again(model, snapshot):
    snapshot.take()
    copies = {place: kept.saved for place, kept in snapshot._buffers.items()}
    change(model)
    snapshot.take()
    again = [name for (owner, name), kept in snapshot._buffers.items() if kept.saved is not copies[owner, name]]
    assert again == ["ema"]
