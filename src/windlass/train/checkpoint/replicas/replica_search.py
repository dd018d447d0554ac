"""Resumes from in-memory replicas: ranks agree on the newest step with every part, and fetch their parts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint._nested_dict import unflatten_state_dict
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner

from windlass.train.checkpoint.rank_group import RankGroup, run_on_all
from windlass.train.checkpoint.replicas import replica_file, replica_placement
from windlass.train.checkpoint.replicas.replica_writer import exchange_tensors
from windlass.train.checkpoint.staging import StateDict, local_part
from windlass.train.checkpoint.store.errors import CheckpointError, DamagedError, ModelMismatchError, RankGoneError

ReplicaBytes = torch.Tensor


def find_newest(
    folder: Path, ranks: RankGroup, run: replica_placement.RunKey, report: Callable[[str], None], *, least: int
) -> tuple[int, ReplicaBytes] | None:
    """Return (step, this rank's replica) of the newest step that every rank has intact, from step `least` on.

    A collective. Steps that are passed over are reported.
    """
    seen = run_on_all(ranks, lambda: frozenset(_list_replicas(folder)))
    if any(replica.run.location == run.location and replica.run != run for replicas in seen for replica in replicas):
        report("in-memory replicas of another mesh are not used")
    for whole in replica_placement.complete_steps(seen, run):
        if whole.step < least:
            break
        try:
            return whole.step, _fetch(folder, ranks, run, whole)
        except RankGoneError:
            raise
        except CheckpointError as error:
            report(f"skipping the in-memory replicas of step {whole.step}: {error}")
    return None


def restore_state(data: ReplicaBytes, state: StateDict, ranks: RankGroup) -> tuple[dict[str, Any], StateDict]:
    """Return (further values, `state` as it was saved). A collective. Raises ModelMismatchError before any change."""
    extra, saved = replica_file.unpack(data)
    planner = DefaultSavePlanner()
    planner.set_up_planner(state)
    flat = dict(planner.state_dict)
    run_on_all(ranks, lambda: _refuse_another_model(flat, saved))
    with torch.no_grad():
        for name, value in flat.items():
            if isinstance(value, torch.Tensor):
                local_part(value).copy_(saved[name])
            else:
                flat[name] = saved[name]
    return extra, unflatten_state_dict(flat, planner.mappings)


def _refuse_another_model(flat: StateDict, saved: StateDict) -> None:
    if other := sorted(flat.keys() ^ saved.keys()) or [name for name in flat if _differs(flat[name], saved[name])]:
        raise ModelMismatchError(f"the in-memory replicas belong to another model: {', '.join(other[:5])}")


def _list_replicas(folder: Path) -> list[replica_placement.Replica]:
    return [
        replica for path in folder.iterdir() if (replica := replica_placement.parse_file_name(path.name)) is not None
    ]


def _fetch(
    folder: Path, ranks: RankGroup, run: replica_placement.RunKey, whole: replica_placement.CompleteStep
) -> ReplicaBytes:
    """Return this rank's replica, from its own node or received from another one."""
    me = ranks.rank

    def read() -> dict[int, ReplicaBytes]:
        wanted = [rank for rank, holder in enumerate(whole.holders) if holder == me]
        names = {rank: replica_placement.file_name(replica_placement.Replica(run, whole.step, rank)) for rank in wanted}
        return {rank: _map_replica(folder / name) for rank, name in names.items()}

    held: dict[int, ReplicaBytes] = {}
    run_on_all(ranks, lambda: held.update(read()))
    sizes = run_on_all(ranks, lambda: {rank: len(data) for rank, data in held.items()})
    if whole.holders[me] == me:
        mine = held[me]
        exchange_tensors(ranks, {rank: data for rank, data in held.items() if rank != me}, {})
    else:
        mine = torch.empty(sizes[whole.holders[me]][me], dtype=torch.uint8)
        exchange_tensors(ranks, {rank: data for rank, data in held.items() if rank != me}, {whole.holders[me]: mine})
    run_on_all(
        ranks,
        lambda: replica_file.verify(
            replica_file.bytes_view(mine), replica_placement.file_name(replica_placement.Replica(run, whole.step, me))
        ),
    )
    return mine


def _map_replica(path: Path) -> ReplicaBytes:
    try:
        return replica_file.map_file(path)
    except OSError as error:
        raise DamagedError(f"{path.name} cannot be read: {error.strerror}") from error


def _differs(value: Any, saved: Any) -> bool:
    if not isinstance(value, torch.Tensor) or not isinstance(saved, torch.Tensor):
        return isinstance(value, torch.Tensor) != isinstance(saved, torch.Tensor)
    mine = local_part(value)
    return (mine.shape, mine.dtype) != (saved.shape, saved.dtype)
