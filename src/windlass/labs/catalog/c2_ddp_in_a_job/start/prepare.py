"""Writes the data of the lab into the folder of the first argument: 40 samples of 1 MiB, with a byte for each value."""

import sys
from pathlib import Path

import numpy as np

folder = Path(sys.argv[1])
random = np.random.default_rng(7)
for number in range(40):
    np.save(folder / f"{number}.npy", random.integers(0, 256, 1 << 20, dtype=np.uint8))
print(f"40 samples are in {folder}", flush=True)
