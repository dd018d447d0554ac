"""Going on from copies in memory: ranks agree on the newest step of which every part is there, and bring it there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint._nested_dict import unflatten_state_dict
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner

from windlass.train.checkpoint.copies import file, whose
from windlass.train.checkpoint.copies.keeping import exchange
from windlass.train.checkpoint.staging import State, local_part
from windlass.train.checkpoint.store.errors import CheckpointError, DamagedError, OtherModelError, RankGoneError
from windlass.train.checkpoint.together import Ranks, together

Packed = torch.Tensor


def newest(
    folder: Path, ranks: Ranks, run: whose.Run, tell: Callable[[str], None], *, least: int
) -> tuple[int, Packed] | None:
    """(step, this rank's copy) of the newest step, not before `least`, of which all ranks have theirs, undamaged.

    A collective. What is passed over is told.
    """
    seen = together(ranks, lambda: frozenset(_in(folder)))
    if any(copy.run.place == run.place and copy.run != run for copies in seen for copy in copies):
        tell("copies in memory of another mesh are not used")
    for whole in whose.wholes(seen, run):
        if whole.step < least:
            break
        try:
            return whole.step, _brought(folder, ranks, run, whole)
        except RankGoneError:
            raise
        except CheckpointError as error:
            tell(f"passing over the copies in memory of step {whole.step}: {error}")
    return None


def restore(data: Packed, state: State, ranks: Ranks) -> tuple[dict[str, Any], State]:
    """(what went along, `state` as it was copied). A collective. Raises OtherModelError, before anything is changed."""
    told, copied = file.unpacked(data)
    planner = DefaultSavePlanner()
    planner.set_up_planner(state)
    flat = dict(planner.state_dict)
    together(ranks, lambda: _refuse_another_model(flat, copied))
    with torch.no_grad():
        for name, value in flat.items():
            if isinstance(value, torch.Tensor):
                local_part(value).copy_(copied[name])
            else:
                flat[name] = copied[name]
    return told, unflatten_state_dict(flat, planner.mappings)


def _refuse_another_model(flat: State, copied: State) -> None:
    if other := sorted(flat.keys() ^ copied.keys()) or [name for name in flat if _differs(flat[name], copied[name])]:
        raise OtherModelError(f"the copies in memory are of another model: {', '.join(other[:5])}")


def _in(folder: Path) -> list[whose.Copy]:
    return [copy for path in folder.iterdir() if (copy := whose.copy_of(path.name)) is not None]


def _brought(folder: Path, ranks: Ranks, run: whose.Run, whole: whose.Whole) -> Packed:
    """This rank's copy, from its own node or sent from another one."""
    me = ranks.rank

    def read() -> dict[int, Packed]:
        wanted = [rank for rank, holder in enumerate(whole.holders) if holder == me]
        names = {rank: whose.name_of(whose.Copy(run, whole.step, rank)) for rank in wanted}
        return {rank: _read(folder / name) for rank, name in names.items()}

    held: dict[int, Packed] = {}
    together(ranks, lambda: held.update(read()))
    sizes = together(ranks, lambda: {rank: len(data) for rank, data in held.items()})
    if whole.holders[me] == me:
        mine = held[me]
        exchange(ranks, {rank: data for rank, data in held.items() if rank != me}, {})
    else:
        mine = torch.empty(sizes[whole.holders[me]][me], dtype=torch.uint8)
        exchange(ranks, {rank: data for rank, data in held.items() if rank != me}, {whole.holders[me]: mine})
    together(ranks, lambda: file.checked(file.view_of(mine), whose.name_of(whose.Copy(run, whole.step, me))))
    return mine


def _read(path: Path) -> Packed:
    try:
        return file.mapped(path)
    except OSError as error:
        raise DamagedError(f"{path.name} cannot be read: {error.strerror}") from error


def _differs(value: Any, copied: Any) -> bool:
    if not isinstance(value, torch.Tensor) or not isinstance(copied, torch.Tensor):
        return isinstance(value, torch.Tensor) != isinstance(copied, torch.Tensor)
    mine = local_part(value)
    return (mine.shape, mine.dtype) != (copied.shape, copied.dtype)
