"""A run that only counts: its state is a function of the step, so every load can be checked."""

from __future__ import annotations

import torch

from windlass.train.checkpoint.checkpoint_search import find_newest_good
from windlass.train.checkpoint.rank_group import new_rank_group
from windlass.train.checkpoint.saver import CheckpointSaver
from windlass.train.checkpoint.state_loader import load_state
from windlass.train.checkpoint.store.retention import Retention
from windlass.train.checkpoint.store.storage import open_storage

WIDTH = 20_000


def state_at(rank, step):
    """Return a state in which each rank has a tensor of its own, and all have one in common."""
    mine, ours = torch.full((WIDTH,), float(step * 100 + rank)), torch.full((3,), float(step))
    return {"model": {f"of.{rank}": mine, "all": ours}, "step": step}


def train(rank, place, steps, keep=2):
    """Resume, save after each step; return the skipped checkpoints, the first step, and the cost."""
    everybody, reports = new_rank_group(), []
    begun = resumed(rank, place, everybody, reports)
    with CheckpointSaver(open_storage(place), everybody, after=begun, keep=Retention(keep)) as saver:
        for step in range((begun or 0) + 1, steps + 1):
            saver.save(state_at(rank, step), step, samples=step * 8)
            saver.wait_until_staged()
    return begun, reports


def resumed(rank, place, everybody, reports):
    """Return the step of the newest good checkpoint, after a check of every value; None if there is none."""
    found = find_newest_good(open_storage(place), everybody, report=reports.append)
    if found is None:
        return None
    state = state_at(rank, 0)
    load_state(found, state, everybody)
    step, wanted = found.manifest.step, state_at(rank, found.manifest.step)
    assert all(torch.equal(state["model"][name], tensor) for name, tensor in wanted["model"].items())
    assert state["step"] == step
    return step


def resume_only(rank, place):
    """Load the newest checkpoint without a change."""
    reports = []
    return resumed(rank, place, new_rank_group(), reports), reports
