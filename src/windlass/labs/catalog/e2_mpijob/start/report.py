"""The samples of the lab, and the report of all ranks, which rank 0 prints. This file needs no change."""

import json
import os

import numpy as np


def samples() -> tuple[np.ndarray, np.ndarray]:
    """64 samples of four inputs, and their targets with some noise."""
    numbers = np.random.default_rng(1234)
    inputs = numbers.normal(size=(64, 4))
    return inputs, inputs @ np.array([1.0, -2.0, 3.0, 0.5]) + 0.1 * numbers.normal(size=64)


def report(world, parameters: np.ndarray) -> None:
    """Collects the host and the parameters of each rank at rank 0, and prints them as one line of JSON."""
    ranks = world.gather({"host": os.uname().nodename, "parameters": parameters.tolist()}, root=0)
    if ranks is not None:
        for rank, each in enumerate(ranks):
            print(f"rank {rank} of {len(ranks)} on {each['host']}: {np.round(each['parameters'], 4)}")
        print(json.dumps({"ranks": ranks}), flush=True)
