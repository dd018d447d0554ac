"""Finds by stacks which ranks are outside of a collective, and whether one is in its data loader or a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping

from windlass.diagnose.failures.verdict_texts import describe_ranks
from windlass.diagnose.flight.findings import HangFinding
from windlass.diagnose.flight.records import RankStack, SourceFrame

_IN_COLLECTIVE = "/torch/distributed/distributed_c10d.py"
_MAX_INNER_FRAMES = 4
"""Frames from the innermost one within which a wait in a collective is found."""
_KINDS = {
    "data": ("/torch/utils/data/", "/windlass/train/data/", "-packages/datasets/", "-packages/webdataset/"),
    "checkpoint": (
        "/torch/serialization.py", "/torch/distributed/checkpoint/", "/windlass/train/checkpoint/",
        "-packages/safetensors/", "-packages/fsspec/", "-packages/s3fs/",
    ),
}  # fmt: skip
"""Parts of the paths of frames, by the work that they show."""
_OUTSIDE = "stack-rank-outside-collective"
_RULES = {"data": "stack-rank-in-data", "checkpoint": "stack-rank-in-checkpoint"}


def find_in_stack(rank: int, stack: RankStack, time_ns: int) -> HangFinding | None:
    """Returns the work that a missing rank is busy with, if its stack shows it."""
    if _collective_of(stack):
        return None
    kind = next((kind for kind, paths in _KINDS.items() if _is_in(stack, paths)), None)
    if kind is None:
        return None
    values = {"place": stack.shown_place}
    text = f"stacks: rank {rank} is in {kind} code, called at {values['place']}"
    return HangFinding(_RULES[kind], text, values, (rank,), (), stack.source, time_ns)


def find_outside_collective(stacks: Mapping[int, RankStack]) -> HangFinding | None:
    """Returns the ranks that are outside of a collective, if all others are inside of one."""
    inside = {rank: frame for rank, stack in stacks.items() if (frame := _collective_of(stack))}
    outside = tuple(sorted(rank for rank, stack in stacks.items() if stack.frames and rank not in inside))
    if not inside or not outside:
        return None
    stack, waiting = stacks[outside[0]], tuple(sorted(inside))
    values = {
        "missing": describe_ranks(outside),
        "place": stack.shown_place,
        "op": inside[waiting[0]].function,
        "waiting": describe_ranks(waiting),
    }
    text = (
        f"stacks: rank {values['missing']} is outside of a collective, at {values['place']}; "
        f"waiting in {values['op']}: rank {values['waiting']}"
    )
    return HangFinding(_OUTSIDE, text, values, outside, waiting, stack.source, 0)


def _collective_of(stack: RankStack) -> SourceFrame | None:
    """Returns the frame of the collective in which a rank waits."""
    return next((frame for frame in stack.frames[:_MAX_INNER_FRAMES] if _IN_COLLECTIVE in frame.file), None)


def _is_in(stack: RankStack, paths: tuple[str, ...]) -> bool:
    return any(path in frame.file for frame in stack.frames for path in paths)
