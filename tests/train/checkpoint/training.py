"""A run that only counts: its state is a function of the step, so every load can be checked."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import torch

from windlass.train.checkpoint.checkpoint_search import find_newest_good
from windlass.train.checkpoint.rank_group import new_rank_group
from windlass.train.checkpoint.saver import CheckpointSaver
from windlass.train.checkpoint.shared_lease import SharedLease
from windlass.train.checkpoint.state_loader import load_state
from windlass.train.checkpoint.store import lease
from windlass.train.checkpoint.store.errors import LeaseLostError
from windlass.train.checkpoint.store.lease import Holder, ProcessIdentity
from windlass.train.checkpoint.store.retention import Retention
from windlass.train.checkpoint.store.storage import open_storage
from windlass.train.checkpoint.store.writer_lease import take_writer_lease

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


def hold_lease(rank, place, pause):
    """Save step 1, wait for the file `pause`, then save step 2; return the verified steps."""
    everybody = new_rank_group()
    with CheckpointSaver(open_storage(place), everybody, after=None) as saver:
        saver.save(state_at(rank, 1), 1, blocking=True)
        Path(f"{pause}.ready").touch()
        while not Path(pause).exists():
            time.sleep(0.01)
        saver.save(state_at(rank, 2), 2, blocking=True)
    return resumed(rank, place, everybody, [])


def lease_of_generation(storage, generation):
    """Take the lease for one start of a job, on a machine of its own as far as leases tell."""
    process = ProcessIdentity(f"node-{generation}", f"boot {generation}", 7, 100)
    held = take_writer_lease(storage, Holder("digits-1", generation, process, 0), print)
    return SharedLease(new_rank_group(), "digits-1", held.token, held)


def saver_of_generation(storage, generation, after, keep=3):
    """Return a saver of one start of a job, as `lease_of_generation`."""
    shared = lease_of_generation(storage, generation)
    return CheckpointSaver(storage, new_rank_group(), after=after, keep=Retention(keep), lease=shared)


def commit_late(storage, monkeypatch):
    """Save steps 10 and 20 as generation 1, which stalls before it commits the second; generation 2 runs meanwhile.

    Return the savers of both. Generation 2 resumes from step 10, and saves steps 15 and 20.
    """
    old = saver_of_generation(storage, 1, None, keep=1)
    old.save(state_at(0, 10), 10, blocking=True)
    really, savers = type(storage).commit, [old]

    def commit(self, *what):
        monkeypatch.setattr(type(storage), "commit", really)
        new = saver_of_generation(storage, 2, resumed(0, str(storage.location), new_rank_group(), []))
        savers.append(new)
        for step in (15, 20):
            new.save(state_at(0, step), step, blocking=True)
        monkeypatch.setattr(lease, "DURATION_S", 0.0)  # for which a commit to a folder waits for missing files
        really(self, *what)

    monkeypatch.setattr(type(storage), "commit", commit)
    with contextlib.suppress(LeaseLostError):
        old.save(state_at(0, 20), 20, blocking=True)
    return savers


def resume_only(rank, place):
    """Load the newest checkpoint without a change."""
    reports = []
    return resumed(rank, place, new_rank_group(), reports), reports
