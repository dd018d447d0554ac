"""Measures the memory, the CPU time and the kind of work of a training, and writes it to runs/JOB.json.

This file needs no change.
"""

import ctypes
import hashlib
import json
import os
import statistics
import time
from collections import Counter
from pathlib import Path

COUNTS: Counter[str] = Counter()
"""Calls of this process: `model` and `block` forward passes, `sequences` that entered the model."""
BLOCKS = 8
"""Blocks of the model."""
_STATUS = Path("/proc/self/status")
_M_MMAP_THRESHOLD = -3
ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 1 << 16)  # a freed tensor then leaves the process at once


def count(what: str, amount: int = 1) -> None:
    """Count a forward pass where it is computed; a recomputed one counts again."""
    COUNTS[what] += amount


class StepMeasurement:
    """Peak of the memory above that of the finished model, and the CPU time of each step."""

    def __init__(self) -> None:
        self.before = 0
        self.losses: list[float] = []
        self.seconds: list[float] = []
        self.number_format = ""
        self.began = 0.0

    def begin(self) -> None:
        """Begin to measure: what follows are activations, gradients and the averages of AdamW."""
        _forget_peak()
        self.before = _memory("VmRSS")
        self.began = time.process_time()

    def saw(self, number_format: object) -> None:
        """Note the number format in which a matrix product was computed."""
        self.number_format = str(number_format).removeprefix("torch.")

    def step(self, loss: float) -> None:
        """Note the end of a step."""
        self.seconds.append(time.process_time() - self.began)
        self.losses.append(loss)
        self.began = time.process_time()

    def write(self) -> None:
        """Print the result and write it to a file."""
        steps = len(self.losses)
        run = {
            "number_format": self.number_format,
            "peak_mib": round((_memory("VmHWM") - self.before) / 1024, 1),
            "step_ms": round(1000 * statistics.median(self.seconds), 1),
            "passes": COUNTS["model"] / steps,
            "block_runs": COUNTS["block"] / COUNTS["model"] / BLOCKS,
            "sequences": COUNTS["sequences"] / steps,
            "losses": self.losses,
        }
        text = json.dumps(run)
        name = f"runs/{os.environ.get('WINDLASS_JOB_ID', 'python')}.json"
        Path("runs").mkdir(exist_ok=True)
        Path(name).write_text(text)
        print(
            f"{run['number_format']}, {run['passes']:g} passes of {run['sequences'] / run['passes']:g} sequences, "
            f"each block computed {run['block_runs']:g} times: peak {run['peak_mib']:.0f} MiB, "
            f"step {run['step_ms']:.0f} ms, last loss {self.losses[-1]:.6f}"
        )
        print(f"wrote {name} {hashlib.sha256(text.encode()).hexdigest()[:16]}")


def _memory(field: str) -> int:
    """Return a field of /proc/self/status in KiB: VmRSS is the memory now, VmHWM its peak."""
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(f"{field}:"))
    return int(line.split()[1])


def _forget_peak() -> None:
    """Begin a new peak, as torch.cuda.reset_peak_memory_stats does on a GPU."""
    Path("/proc/self/clear_refs").write_text("5")
