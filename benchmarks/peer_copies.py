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


class Measured(NamedTuple):
    """Values of one rank, in seconds, one for each round."""

    stalls: list[float]
    replicas: list[float]
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
        measured = [pickle.loads(Path(folder, f"rank-{rank}").read_bytes()) for rank in range(RANKS)]  # noqa: S301
    medians = {
        what: statistics.median(worst([getattr(each, what) for each in measured])) * 1000 for what in Measured._fields
    }
    for what, milliseconds in medians.items():
        print(f"{what.replace('_', ' '):<16} median {milliseconds:.1f} ms")
    size = f"{RANKS} ranks of {LAYERS * WIDTH * WIDTH * 4 >> 20} MiB"
    report(
        f"training waits for a replica in memory and at a partner, {size}", medians["stalls"], medians["replicas"], ""
    )
    target = medians["from_folder"]
    report(f"state of lost ranks from their own replicas, {size}", medians["from_own"], target, "from a folder")
    report(
        f"state of a lost node from its partner's replicas, {size}", medians["from_partner"], target, "from a folder"
    )


def report(claim: str, measured: float, peer_measured: float, peer: str) -> None:
    """Print one figure. A replica as a whole takes as long as a blocking one would delay training."""
    figure = {"claim": claim, "measured": measured, "unit": "ms", "target": peer_measured * (1.0 if peer else 0.05)}
    print(json.dumps({**figure, "peer": peer or "a blocking replica", "peer_measured": peer_measured}))


def worst(of_ranks: list[list[float]]) -> list[float]:
    """Return for each round the rank with the longest wait, because the others wait for it."""
    return [max(each) for each in zip(*of_ranks, strict=True)]


def forked(folder: Path, memory: Path, rank: int) -> int:
    if pid := os.fork():
        return pid
    code = 1
    try:
        Path(folder, f"rank-{rank}").write_bytes(pickle.dumps(measure(folder, memory, rank)))
        code = 0
    finally:
        os._exit(code)


def measure(folder: Path, memory: Path, rank: int) -> Measured:  # noqa: C901 - the measurements in their order
    import torch  # noqa: PLC0415 - each rank its own: a process with threads must not be forked
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
    measured, group = Measured([], [], [], [], [], [], []), new_rank_group()
    state = {"model": {f"of.{rank}.{name}": tensor for name, tensor in model.state_dict().items()}}
    mine, run = memory / f"node-{rank}", replica_placement.run_key("benchmark", "dp=2", RANKS)
    mine.mkdir()
    place = open_storage(str(folder / "run"))

    def forward_and_backward() -> None:
        model(torch.ones(SAMPLES, WIDTH)).square().mean().backward()

    def step() -> None:
        optimizer.step()
        optimizer.zero_grad()
        dist.barrier()

    replicas = ReplicaWriter(mine, new_rank_group(), ["a", "b"], run, print)
    for number in range(1, ROUNDS + 2):
        alone = time_of(forward_and_backward)
        step()
        replicas.begin(state, number, {}, ())
        meanwhile = time_of(forward_and_backward)
        replicas.wait_until_staged()
        step()
        while not replicas.is_done:  # the next one is not due so soon
            time.sleep(0.005)
        replicas.wait()
        if number > 1:  # the first round allocates the memory
            for values, value in zip(measured, (*replicas.cost[:2], alone, meanwhile), strict=False):
                values.append(value)
    with CheckpointSaver(place, group, after=None) as saver:
        saver.save(state, 1, blocking=True)

    def from_memory() -> None:
        step, data = replica_search.find_newest(mine, group, run, print, least=1)
        assert step == ROUNDS + 1
        replica_search.restore_state(data, state, group)

    for times in (measured.from_own, measured.from_partner):
        for _ in range(ROUNDS):
            dist.barrier()
            times.append(time_of(from_memory))
        dist.barrier()
        if rank:
            remove_files(mine)
    for _ in range(ROUNDS):
        drop_from_cache(folder / "run")
        dist.barrier()
        measured.from_folder.append(time_of(lambda: load_state(find_newest_good(place, group), state, group)))
    replicas.close()
    return measured


def remove_files(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


def drop_from_cache(folder: Path) -> None:
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
