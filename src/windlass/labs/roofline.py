"""Measures the roofline of this machine's CPU and the place of some kernels below it.

`python -m windlass.labs.roofline` prints the highest rate of a matrix product, the bandwidth of the memory, and for
each kernel its arithmetic intensity, its bound by the roofline model, and the rate that it reaches. Rates are the best
of several rounds in single precision, with one thread for each core that this process may use.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

FLOAT_BYTES = 4
ROUNDS = 5
VECTOR = 16 * 2**20
"""Elements of a vector: 64 MiB, more than the caches of most CPUs hold."""
WIDTH = 4096
"""Rows and columns of the matrix: 64 MiB."""
COLUMNS = (1, 8, 64, 512)


@dataclass(frozen=True)
class Kernel:
    """A computation with its floating-point operations and the bytes that it reads and writes at least."""

    name: str
    flops: int
    bytes: int
    compute: Callable[[], object]

    @property
    def intensity(self) -> float:
        """Floating-point operations per byte of memory traffic."""
        return self.flops / self.bytes


@dataclass(frozen=True)
class Roofline:
    """Both limits of a machine: floating-point operations per second, and bytes per second."""

    flops: float
    bandwidth: float

    @property
    def ridge(self) -> float:
        """Lowest arithmetic intensity at which the arithmetic is the limit, and no longer the memory."""
        return self.flops / self.bandwidth

    def bound(self, intensity: float) -> float:
        """Highest rate of a kernel with this arithmetic intensity."""
        return min(self.flops, self.bandwidth * intensity)


def main() -> None:
    """Measures and prints."""
    cores = len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(cores) as threads:
        # 1. Kernels from little to much arithmetic per byte.
        kernels = [add_kernel(threads, cores), *map(product_kernel, COLUMNS)]
        # 2. The best rate of each.
        rates = [kernel.flops / best_seconds(kernel.compute) for kernel in kernels]
    # 3. The limits are the highest rates that any kernel reaches.
    moved = [rate / kernel.intensity for rate, kernel in zip(rates, kernels, strict=True)]
    machine = Roofline(max(rates), max(moved))
    # 4. The table.
    sys.stdout.writelines(f"{line}\n" for line in report(cores, machine, kernels, rates))


def add_kernel(threads: ThreadPoolExecutor, parts: int) -> Kernel:
    """Adds two vectors, a part of them in each thread."""
    first, second, total = (np.ones(VECTOR, np.float32) for _ in range(3))
    edges = np.linspace(0, VECTOR, parts + 1).astype(int)
    slices = [slice(begin, end) for begin, end in pairwise(edges)]

    def add_part(part: slice) -> None:
        np.add(first[part], second[part], out=total[part])

    def compute() -> None:
        list(threads.map(add_part, slices))

    return Kernel("sum of two vectors", VECTOR, 3 * FLOAT_BYTES * VECTOR, compute)


def product_kernel(columns: int) -> Kernel:
    """Multiplies a square matrix by one with this number of columns, by the BLAS of numpy."""
    generator = np.random.default_rng(0)
    matrix = generator.random((WIDTH, WIDTH), np.float32)
    other = generator.random((WIDTH, columns), np.float32)
    result: Array = np.empty((WIDTH, columns), np.float32)
    moved = FLOAT_BYTES * (matrix.size + other.size + result.size)
    name = "matrix times vector" if columns == 1 else f"matrix times {columns} columns"
    return Kernel(name, 2 * matrix.size * columns, moved, partial(np.matmul, matrix, other, out=result))


def best_seconds(compute: Callable[[], object]) -> float:
    """Shortest time of a computation; the first call, which touches the memory, is not measured."""
    compute()
    times = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        compute()
        times.append(time.perf_counter() - begun)
    return min(times)


def report(cores: int, machine: Roofline, kernels: list[Kernel], rates: list[float]) -> Iterator[str]:
    """Lines of text: both limits, then one line for each kernel."""
    yield f"{cores} cores, float32, best of {ROUNDS} rounds"
    yield f"peak of a matrix product  {machine.flops / 1e9:8.1f} GFLOP/s"
    yield f"memory bandwidth          {machine.bandwidth / 1e9:8.1f} GB/s"
    yield f"ridge point               {machine.ridge:8.1f} FLOP/byte"
    yield ""
    yield f"{'kernel':<28}{'FLOP/byte':>10}{'bound GFLOP/s':>15}{'reached':>10}{'limit':>12}"
    for kernel, rate in zip(kernels, rates, strict=True):
        limit = "arithmetic" if kernel.intensity > machine.ridge else "memory"
        bound = machine.bound(kernel.intensity)
        yield f"{kernel.name:<28}{kernel.intensity:>10.2f}{bound / 1e9:>15.1f}{rate / 1e9:>10.1f}{limit:>12}"


if __name__ == "__main__":
    main()
