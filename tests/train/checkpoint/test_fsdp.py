"""A sharded model and its optimizer, saved in the background during training: the later losses are the same."""

from __future__ import annotations

import shutil

import pytest
import ranks
import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from windlass.train.checkpoint.checkpoint_search import find_newest_good
from windlass.train.checkpoint.rank_group import new_rank_group
from windlass.train.checkpoint.saver import CheckpointSaver
from windlass.train.checkpoint.state_loader import load_state
from windlass.train.checkpoint.store.storage import open_storage

WIDTH, STEPS = 300, 8  # large enough that weights are copied in the background
OPTIONS = StateDictOptions(flatten_optimizer_state_dict=True)


def sharded(world):
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(3)))
    for part in (*model, model):
        fully_shard(part, mesh=init_device_mesh("cpu", (world,)))
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3)


def state_of(model, optimizer):
    of_model, of_optimizer = get_state_dict(model, optimizer, options=OPTIONS)
    return {"model": of_model, "opt": of_optimizer}


def train(_rank, world, place, save_at):
    """Return the losses of the steps after the loaded checkpoint, or of all steps."""
    (model, optimizer), everybody, losses = sharded(world), new_rank_group(), []
    begun = None
    if found := find_newest_good(open_storage(place), everybody):
        state, begun = state_of(model, optimizer), found.manifest.step
        load_state(found, state, everybody)
        set_state_dict(
            model, optimizer, model_state_dict=state["model"], optim_state_dict=state["opt"], options=OPTIONS
        )
    with CheckpointSaver(open_storage(place), everybody, after=begun) as saver:
        for step in range((begun or 0) + 1, STEPS + 1):
            batch = torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(step))
            loss = model(batch).square().mean()
            loss.backward()
            saver.wait_until_staged()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
            if step in save_at:
                saver.save(state_of(model, optimizer), step)
    return losses


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return the location of a run of two ranks that saved at step 5, and all its losses."""
    folder = tmp_path_factory.mktemp("trained")
    losses, _ = ranks.run(folder / "ranks", 2, train, 2, str(folder / "run"), (3, 5))
    return folder / "run", losses


@pytest.mark.parametrize(("world", "exact"), [(2, True), (1, False), (3, False)])
def test_steps_after_a_restored_checkpoint_are_the_same_as_before(tmp_path, trained, world, exact):
    place, losses = trained
    shutil.copytree(place, tmp_path / "run")
    again, *_ = ranks.run(tmp_path / "ranks", world, train, world, str(tmp_path / "run"), ())
    assert again == losses[5:] if exact else again == pytest.approx(losses[5:], abs=1e-6)
