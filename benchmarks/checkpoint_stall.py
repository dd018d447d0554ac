"""Delay of training by a save: in the background against blocking, with the same state, in turns, in one run.

Two ranks train a model with a state of 192 MiB on each, and save it to a folder. The delay is the time in `save` and in
`wait_until_staged`, called right before the optimizer's step.
"""

import json
import os
import pickle
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

RANKS, ROUNDS, LAYERS, WIDTH, SAMPLES = 2, 9, 48, 1024, 64


class Measured(NamedTuple):
    """Values of one rank, in seconds, one for each round."""

    stalls: list[float]
    background: list[float]
    blocking: list[float]
    steps: list[float]
    steps_meanwhile: list[float]


def main() -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        ranks = [forked(Path(folder), rank) for rank in range(RANKS)]
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in ranks]
        if any(codes):
            sys.exit(f"ranks ended with {codes}")
        measured = [pickle.loads(Path(folder, f"rank-{rank}").read_bytes()) for rank in range(RANKS)]  # noqa: S301
    stall, blocking = (worst([getattr(each, what) for each in measured]) for what in ("stalls", "blocking"))
    print(
        f"a blocking save     median {statistics.median(blocking) * 1000:.0f} ms, worst {max(blocking) * 1000:.0f} ms"
    )
    print(
        f"in the background   median {statistics.median(stall) * 1000:.1f} ms, worst {max(stall) * 1000:.1f} ms waited"
    )
    for what in ("background", "steps", "steps_meanwhile"):
        seconds = worst([getattr(each, what) for each in measured])
        print(f"{what.replace('_', ' '):<19} median {statistics.median(seconds) * 1000:.0f} ms")
    claim = {
        "claim": f"training waits for a save, {RANKS} ranks of {LAYERS * WIDTH * WIDTH * 4 >> 20} MiB",
        "measured": statistics.median(stall) * 1000,
        "unit": "ms",
        "target": statistics.median(blocking) * 10,
        "peer": "a blocking save",
        "peer_measured": statistics.median(blocking) * 1000,
    }
    print(json.dumps(claim))


def worst(of_ranks: list[list[float]]) -> list[float]:
    """Return for each round the rank with the longest wait, because the others wait for it."""
    return [max(each) for each in zip(*of_ranks, strict=True)]


def forked(folder: Path, rank: int) -> int:
    if pid := os.fork():
        return pid
    code = 1
    try:
        Path(folder, f"rank-{rank}").write_bytes(pickle.dumps(measure(folder, rank)))
        code = 0
    finally:
        os._exit(code)


def measure(folder: Path, rank: int) -> Measured:
    import torch  # noqa: PLC0415 - each rank its own: a process with threads must not be forked
    import torch.distributed as dist  # noqa: PLC0415

    from windlass.train.checkpoint.rank_group import new_rank_group  # noqa: PLC0415
    from windlass.train.checkpoint.saver import CheckpointSaver  # noqa: PLC0415
    from windlass.train.checkpoint.store.retention import Retention  # noqa: PLC0415
    from windlass.train.checkpoint.store.storage import open_storage  # noqa: PLC0415

    dist.init_process_group("gloo", store=dist.FileStore(str(folder / "store"), RANKS), rank=rank, world_size=RANKS)
    model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    measured, group = Measured([], [], [], [], []), new_rank_group()
    state = {"model": {f"of.{rank}.{name}": tensor for name, tensor in model.state_dict().items()}}

    def forward_and_backward() -> None:
        model(torch.ones(SAMPLES, WIDTH)).square().mean().backward()

    def step() -> None:
        optimizer.step()
        optimizer.zero_grad()
        dist.barrier()

    with CheckpointSaver(open_storage(str(folder / "run")), group, after=None, keep=Retention(1)) as saver:
        for number in range(ROUNDS + 1):
            blocking = time_of(partial(saver.save, state, 2 * number + 1, blocking=True))
            alone = time_of(forward_and_backward)
            step()
            stall = time_of(partial(saver.save, state, 2 * number + 2))
            meanwhile = time_of(forward_and_backward)
            stall += time_of(saver.wait_until_staged)
            step()
            saver.wait()
            dist.barrier()
            if number:  # the first round allocates the memory of the copy
                seconds = (stall, saver.cost.duration, blocking, alone, meanwhile)
                for values, value in zip(measured, seconds, strict=True):
                    values.append(value)
    return measured


def time_of(work: Callable[[], object]) -> float:
    begin = time.monotonic()
    work()
    return time.monotonic() - begin


if __name__ == "__main__":
    main()
