"""Blocks that sleep in both passes, and the timeline of each stage. This file needs no change."""

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

BATCH, WIDTH, BLOCKS = 64, 16, 8
FORWARD_S, BACKWARD_S = 0.004, 0.008
"""A block sleeps so long for each sample, as a stand-in for a GPU of its own: ranks here share the cores."""
LAUNCH_S = 0.004
"""And so long for each micro-batch in each pass, however small it is."""
COLUMNS = 76


class SleepingRank:
    """The work of one rank in one step: (start, end, pass) of each block, and how many micro-batches it holds."""

    def __init__(self) -> None:
        self.sleeps = False
        self.clear()

    def clear(self) -> None:
        self.work: list[tuple[float, float, str]] = []
        self.held = self.most_held = 0

    def run(self, kind: str, samples: int) -> None:
        if not self.sleeps:
            return
        start = time.monotonic()
        time.sleep(LAUNCH_S + samples * (FORWARD_S if kind == "forward" else BACKWARD_S))
        self.work.append((start, time.monotonic(), kind))
        self.held += 1 if kind == "forward" else -1
        self.most_held = max(self.most_held, self.held)


class SleepingBlock(nn.Module):
    def __init__(self, rank: SleepingRank) -> None:
        super().__init__()
        self.linear, self.rank = nn.Linear(WIDTH, WIDTH), rank

    def forward(self, x: Tensor) -> Tensor:
        return _Sleep.apply(self.linear(x), self.rank)


class _Sleep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rank: SleepingRank) -> Tensor:
        ctx.rank = rank
        rank.run("forward", len(x))
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        ctx.rank.run("backward", len(gradient))
        return gradient, None


def build_blocks(rank: SleepingRank) -> nn.Module:
    return nn.Sequential(*(SleepingBlock(rank) for _ in range(BLOCKS)))


class StepTimeline:
    """The work of all ranks, gathered on each of them. Their clocks are the same, as they are on one machine."""

    def __init__(self, rank: SleepingRank) -> None:
        self.rank = rank
        self.rows: list[dict[str, Any]] = []

    def begin(self) -> None:
        self.rank.clear()
        dist.barrier()

    def end(self) -> None:
        self.rank.sleeps = not self.rank.sleeps

    def report(self, schedule: str, micro_batches: int, predicted: float | None) -> None:
        """Print the step that was measured: a row for each rank, and the share of the time without work."""
        blocks = BLOCKS // dist.get_world_size()
        ranks: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(ranks, (self.rank.work, self.rank.most_held / blocks))
        begin = min(work[0][0] for work, _ in ranks)
        duration = max(work[-1][1] for work, _ in ranks) - begin
        busy = sum(end - start for work, _ in ranks for start, end, _ in work)
        row = {
            "schedule": schedule,
            "micro_batches": micro_batches,
            "predicted": predicted,
            "bubble": 1 - busy / duration / len(ranks),
            "step_s": duration,
            "held": [held for _, held in ranks],
        }
        self.rows.append(row)
        if dist.get_rank() == 0:
            guess = "none" if predicted is None else f"{predicted:.1%}"
            print(f"{schedule}, {micro_batches} micro-batches of {BATCH // micro_batches} samples:")
            for rank, (work, _) in enumerate(ranks):
                print(f"  rank {rank}  {picture(work, begin, duration, blocks)}")
            print(f"  bubble {row['bubble']:.1%}, predicted {guess}; step {duration:.2f} s", end="; ")
            print(f"micro-batches held {' '.join(f'{held:g}' for held in row['held'])}", flush=True)

    def write(self) -> None:
        """Write all rows into runs/JOB.json."""
        text = json.dumps({"stages": dist.get_world_size(), "rows": self.rows})
        name = f"runs/{os.environ.get('WINDLASS_JOB_ID', 'torchrun')}.json"
        if dist.get_rank() == 0:
            Path("runs").mkdir(exist_ok=True)
            Path(name).write_text(text)
            print(f"wrote {name} {hashlib.sha256(text.encode()).hexdigest()[:16]}", flush=True)


def picture(work: list[tuple[float, float, str]], begin: float, duration: float, blocks: int) -> str:
    """Return a line of time: digits are forward passes, letters are backward passes, dots are the bubble."""
    line = ["."] * COLUMNS
    passes = {"forward": 0, "backward": 0}
    for start, end, kind in work:
        number = passes[kind] // blocks
        passes[kind] += 1
        sign = "1234567890"[number % 10] if kind == "forward" else "abcdefghij"[number % 10]
        for column in range(COLUMNS):
            if start <= begin + (column + 0.5) / COLUMNS * duration < end:
                line[column] = sign
    return "".join(line)
