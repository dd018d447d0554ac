"""Finds by the stack of a missing rank whether it is in its data loader or in a checkpoint."""

from __future__ import annotations

from windlass.diagnose.flight.findings import HangFinding
from windlass.diagnose.flight.records import RankStack

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
_RULES = {"data": "stack-rank-in-data", "checkpoint": "stack-rank-in-checkpoint"}


def find_in_stack(rank: int, stack: RankStack, time_ns: int) -> HangFinding | None:
    """Returns the work that a missing rank is busy with, if its stack shows it."""
    inner = stack.frames[:_MAX_INNER_FRAMES]
    if any(_IN_COLLECTIVE in frame.file for frame in inner):
        return None
    kind = next((kind for kind, paths in _KINDS.items() if _is_in(stack, paths)), None)
    if kind is None:
        return None
    values = {"place": str(stack.place or stack.frames[0])}
    text = f"stacks: rank {rank} is in {kind} code, called at {values['place']}"
    return HangFinding(_RULES[kind], text, values, (rank,), (), stack.source, time_ns)


def _is_in(stack: RankStack, paths: tuple[str, ...]) -> bool:
    return any(path in frame.file for frame in stack.frames for path in paths)
