"""Time from the command to the first step of eight ranks: `windlass agent` and `torchrun`, in turn."""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RANKS, ROUNDS = 8, 3
TARGET = 0.3
"""Fraction of torchrun's time."""
SCRIPT = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.AdamW(model.parameters())
model(torch.ones(8, 64)).sum().backward()
optimizer.step()
print("first step", flush=True)
dist.barrier()
dist.destroy_process_group()
"""
LAUNCHERS = {"windlass agent": "windlass.agent", "torchrun": "torch.distributed.run"}


def main() -> None:
    seconds: dict[str, list[float]] = {name: [] for name in LAUNCHERS}
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "train.py")
        script.write_text(SCRIPT)
        for _ in range(ROUNDS):
            for name, module in LAUNCHERS.items():
                seconds[name].append(to_first_step(module, str(script)))
    for name, each in seconds.items():
        print(f"{name:15} median {statistics.median(each):.2f} s of {' '.join(f'{s:.2f}' for s in each)}")
    ours, theirs = (statistics.median(each) for each in seconds.values())
    claim = {
        "claim": f"start of {RANKS} ranks, to the first step",
        "measured": ours,
        "unit": "s",
        "target": TARGET * theirs,
        "peer": "torchrun",
        "peer_measured": theirs,
    }
    print(json.dumps(claim))


def to_first_step(module: str, script: str) -> float:
    """Seconds until all ranks have finished a step."""
    command = [sys.executable, "-m", module, f"--nproc-per-node={RANKS}", script]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    begin = time.monotonic()
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        for _ in range(RANKS):
            if not process.stdout.readline():
                os.killpg(process.pid, signal.SIGKILL)
                sys.exit(f"{module} has not come to the first step")
        return time.monotonic() - begin


if __name__ == "__main__":
    main()
