"""In-memory replicas: the delay of training by one, and the time to resume from it compared with a folder.

Two ranks of 192 MiB each, as two nodes. Each rank stores its own replica and the other one's. Ranks resume from their
own; then the memory of a node is lost, and its rank resumes from the replica of the other one. For comparison a
checkpoint of the same state is loaded from a folder on this machine's disk, not in the system's cache, as on a node
that replaces a lost one. Times are from the start of the search to the end of loading, checksums included.
"""

import json
import os
import pickle
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

RANKS, ROUNDS, LAYERS, WIDTH, SAMPLES = 2, 5, 48, 1024, 64
MEMORY = "/dev/shm"  # noqa: S108 - the one folder that is always memory


class Seen(NamedTuple):
    """Values of one rank, in seconds, one for each round."""

    stalls: list[float]
    copies: list[float]
    steps: list[float]
    steps_meanwhile: list[float]
    from_own: list[float]
    from_partner: list[float]
    from_folder: list[float]


def main() -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory(dir=MEMORY) as memory:
        ranks = [forked(Path(folder), Path(memory), rank) for rank in range(RANKS)]
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in ranks]
        if any(codes):
            sys.exit(f"ranks ended with {codes}")
        seen = [pickle.loads(Path(folder, f"rank-{rank}").read_bytes()) for rank in range(RANKS)]  # noqa: S301
    medians = {what: statistics.median(worst([getattr(each, what) for each in seen])) * 1000 for what in Seen._fields}
    for what, milliseconds in medians.items():
        print(f"{what.replace('_', ' '):<16} median {milliseconds:.1f} ms")
    size = f"{RANKS} ranks of {LAYERS * WIDTH * WIDTH * 4 >> 20} MiB"
    told(f"training waits for a copy in memory and at a partner, {size}", medians["stalls"], medians["copies"], "")
    target = medians["from_folder"]
    told(f"state of ranks that were lost from their own copies, {size}", medians["from_own"], target, "from a folder")
    told(f"state of a lost node from its partner's copies, {size}", medians["from_partner"], target, "from a folder")


def told(claim: str, measured: float, peer_measured: float, peer: str) -> None:
    """Print one figure. A replica as a whole takes as long as a blocking one would delay training."""
    figure = {"claim": claim, "measured": measured, "unit": "ms", "target": peer_measured * (1.0 if peer else 0.05)}
    print(json.dumps({**figure, "peer": peer or "made at once", "peer_measured": peer_measured}))


def worst(of_ranks: list[list[float]]) -> list[float]:
    """Return for each round the rank with the longest wait, because the others wait for it."""
    return [max(each) for each in zip(*of_ranks, strict=True)]


def forked(folder: Path, memory: Path, rank: int) -> int:
    if pid := os.fork():
        return pid
    code = 1
    try:
        Path(folder, f"rank-{rank}").write_bytes(pickle.dumps(measured(folder, memory, rank)))
        code = 0
    finally:
        os._exit(code)


def measured(folder: Path, memory: Path, rank: int) -> Seen:  # noqa: C901 - what is measured, in its order
    import torch  # noqa: PLC0415 - each rank its own: what is forked must not have worked with threads
    import torch.distributed as dist  # noqa: PLC0415

    from windlass.train.checkpoint.checkpoint_search import find_newest_good  # noqa: PLC0415
    from windlass.train.checkpoint.rank_group import new_rank_group  # noqa: PLC0415
    from windlass.train.checkpoint.replicas import replica_placement, replica_search  # noqa: PLC0415
    from windlass.train.checkpoint.replicas.replica_writer import ReplicaWriter  # noqa: PLC0415
    from windlass.train.checkpoint.saver import CheckpointSaver  # noqa: PLC0415
    from windlass.train.checkpoint.state_loader import load_state  # noqa: PLC0415
    from windlass.train.checkpoint.store.storage import open_storage  # noqa: PLC0415

    dist.init_process_group("gloo", store=dist.FileStore(str(folder / "store"), RANKS), rank=rank, world_size=RANKS)
    model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    seen, everybody = Seen([], [], [], [], [], [], []), new_rank_group()
    state = {"model": {f"of.{rank}.{name}": tensor for name, tensor in model.state_dict().items()}}
    mine = memory / f"node-{rank}"
    mine.mkdir()
    run, place = replica_placement.run_key("benchmark", "dp=2", RANKS), open_storage(str(folder / "run"))

    def forward_and_backward() -> None:
        model(torch.ones(SAMPLES, WIDTH)).square().mean().backward()

    def step() -> None:
        optimizer.step()
        optimizer.zero_grad()
        dist.barrier()

    copies = ReplicaWriter(mine, new_rank_group(), ["a", "b"], run, print)
    for number in range(1, ROUNDS + 2):
        alone = time_of(forward_and_backward)
        step()
        copies.begin(state, number, {}, ())
        meanwhile = time_of(forward_and_backward)
        copies.wait_until_staged()
        step()
        while not copies.is_done:  # the next one is not due so soon
            time.sleep(0.005)
        copies.wait()
        if number > 1:  # the first round allocates the memory
            for values, value in zip(seen, (copies.cost.stall, copies.cost.duration, alone, meanwhile), strict=False):
                values.append(value)
    with CheckpointSaver(place, everybody, after=None) as saver:
        saver.save(state, 1, blocking=True)

    def from_memory() -> None:
        step, data = replica_search.find_newest(mine, everybody, run, print, least=1)
        assert step == ROUNDS + 1
        replica_search.restore_state(data, state, everybody)

    for times in (seen.from_own, seen.from_partner):
        for _ in range(ROUNDS):
            dist.barrier()
            times.append(time_of(from_memory))
        dist.barrier()
        if rank:
            for copy in mine.iterdir():
                copy.unlink()
    for _ in range(ROUNDS):
        uncached(folder / "run")
        dist.barrier()
        seen.from_folder.append(time_of(lambda: load_state(find_newest_good(place, everybody), state, everybody)))
    copies.close()
    return seen


def uncached(folder: Path) -> None:
    """Drop these files from the system's cache; where that is impossible, they are read from memory."""
    for path in (each for each in folder.rglob("*") if each.is_file()):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def time_of(work: Callable[[], object]) -> float:
    begin = time.monotonic()
    work()
    return time.monotonic() - begin


if __name__ == "__main__":
    main()
