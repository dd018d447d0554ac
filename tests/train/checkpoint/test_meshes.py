"""Checkpoints saved on one mesh and loaded on another, by real ranks."""

from __future__ import annotations

import pytest
import ranks
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from windlass.train.checkpoint.checkpoint_search import find_newest_good
from windlass.train.checkpoint.rank_group import new_rank_group
from windlass.train.checkpoint.saver import CheckpointSaver
from windlass.train.checkpoint.state_loader import load_state, restore_generators
from windlass.train.checkpoint.store.errors import ModelMismatchError
from windlass.train.checkpoint.store.storage import open_storage


def whole(step):
    """The state as a single process has it."""
    at = torch.arange(24.0).reshape(6, 4) + step
    return {"model": {"a": at, "b": at.flatten() * 2, "norm": at[0] * 3}, "opt": {"lr": step / 10, "step": step}}


def cut(state, shape):
    """The same state on a mesh: `a` split by its second dimension, `b` by its first, `norm` replicated."""
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("dp", "tp"))
    model = state["model"]
    return {
        "model": {
            "a": distribute_tensor(model["a"], mesh, [Replicate(), Shard(1)]),
            "b": distribute_tensor(model["b"], mesh, [Shard(0), Shard(0)]),
            "norm": model["norm"].clone(),
        },
        "opt": dict(state["opt"]),
    }


def save(rank, place, shape, step, blocking):
    everybody = new_rank_group()
    torch.manual_seed(rank)
    with CheckpointSaver(open_storage(place), everybody, after=None, rank_name=f"tp{rank}") as saver:
        saver.save(
            cut(whole(step), shape), step, samples=step * 8, mesh=str(shape), facts={"seed": 1}, blocking=blocking
        )
        saver.wait_until_staged()
        saver.wait()
        return float(torch.rand(())), saver.cost.size


def load_again(rank, place, shape):
    everybody = new_rank_group()
    found = find_newest_good(open_storage(place), everybody)
    state = cut(whole(-1), shape)
    load_state(found, state, everybody)
    known = restore_generators(found, everybody, f"tp{rank}", seed=0)
    full = {n: t.full_tensor() if isinstance(t, DTensor) else t for n, t in state["model"].items()}
    return found.manifest, full, state["opt"], known, float(torch.rand(()))


@pytest.mark.parametrize("blocking", [True, False], ids=["sync", "async"])
@pytest.mark.parametrize(("before", "after"), [((2, 2), (1, 2)), ((1, 2), (2, 2)), ((2, 2), (2, 2)), ((1, 2), (1, 1))])
def test_a_state_is_restored_on_another_mesh(tmp_path, before, after, blocking):
    place = str(tmp_path / "run")
    saved = ranks.run(tmp_path / "save", before[0] * before[1], save, place, before, 7, blocking)
    for rank, (manifest, model, opt, known, drawn) in enumerate(
        ranks.run(tmp_path / "load", after[0] * after[1], load_again, place, after)
    ):
        assert (manifest.step, manifest.samples, manifest.mesh, manifest.facts) == (7, 56, str(before), {"seed": 1})
        assert manifest.world == before[0] * before[1]
        assert all(torch.equal(model[name], tensor) for name, tensor in whole(7)["model"].items())
        assert opt == whole(7)["opt"]
        assert known == (rank < len(saved))
        assert not known or drawn == saved[rank][0]


def load_another(rank, place):
    everybody = new_rank_group()
    other = {"model": {"a": torch.zeros(6, 5), "b": torch.zeros(24), f"only.{rank}": torch.zeros(1)}}
    with pytest.raises(ModelMismatchError) as refused:
        load_state(find_newest_good(open_storage(place), everybody), other, everybody)
    return str(refused.value)


def test_a_checkpoint_of_another_model_is_refused_on_all_ranks_with_the_names(tmp_path):
    place = str(tmp_path / "run")
    ranks.run(tmp_path / "save", 2, save, place, (1, 2), 7, True)
    loaded, again = ranks.run(tmp_path / "load", 2, load_another, place)
    assert (
        loaded
        == again
        == (
            f"{place}/step-00000007.lease1 belongs to another model\n"
            "2 the model has and the checkpoint lacks: model.only.0, model.only.1\n"
            "3 the checkpoint has and the model lacks: model.norm, opt.lr, opt.step\n"
            "1 have another shape (saved → wanted): model.a [6, 4] → [6, 5]"
        )
    )
