"""The digits job with two ranks: `windlass run` against `torchrun`, in turn, start to exit."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 5
SCRIPT = Path(__file__).resolve().parents[1] / "examples/digits/train.py"
BIN = Path(sys.executable).parent


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = [], []
        time_of(torchrun(folder, 0), folder)  # the first run reads everything from disk
        for number in range(1, ROUNDS + 1):
            ours.append(time_of(windlass(folder, number), folder))
            theirs.append(time_of(torchrun(folder, number), folder))
    print(f"windlass run  {summary(ours)}\ntorchrun      {summary(theirs)}")
    measured, peer = statistics.median(ours), statistics.median(theirs)
    claim = {
        "claim": "digits with 2 ranks, start to exit",
        "measured": measured,
        "unit": "s",
        "target": peer,
        "peer": "torchrun",
        "peer_measured": peer,
    }
    print(json.dumps(claim))


def windlass(folder: str, number: int) -> list[str]:
    ranks = [str(BIN / "windlass"), "run", "--state", f"{folder}/state", "--procs", "2", "--", str(BIN / "python")]
    return [*ranks, str(SCRIPT), "--checkpoint-dir", f"{folder}/windlass-{number}"]


def torchrun(folder: str, number: int) -> list[str]:
    ranks = [str(BIN / "torchrun"), "--nproc-per-node", "2"]
    return [*ranks, str(SCRIPT), "--checkpoint-dir", f"{folder}/torchrun-{number}"]


def time_of(command: list[str], folder: str) -> float:
    """Seconds of wall time. One thread a rank for both: torchrun's own default."""
    begin = time.monotonic()
    ran = subprocess.run(
        command, env={**os.environ, "OMP_NUM_THREADS": "1"}, cwd=folder, capture_output=True, text=True, check=False
    )
    took = time.monotonic() - begin
    if ran.returncode != 0 or "test accuracy" not in ran.stdout:
        sys.exit(f"{' '.join(command)} failed\n{ran.stdout}\n{ran.stderr}")
    return took


def summary(seconds: list[float]) -> str:
    return f"median {statistics.median(seconds):.2f} s of {' '.join(f'{s:.2f}' for s in seconds)}"


if __name__ == "__main__":
    main()
