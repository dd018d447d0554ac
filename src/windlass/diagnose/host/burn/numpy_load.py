"""Matrix products and copies on the CPU by numpy, for environments without torch."""

from __future__ import annotations

import time

import numpy as np

from windlass.diagnose.host.burn.measurement import Measurement

_WIDTH, _ELEMENTS = 1024, 1 << 25


def measure_products(device: str, seconds: float) -> Measurement:
    """Returns operations a second of float32 products, and the number of products that differ from the first."""
    generator = np.random.default_rng(0)
    left, right = (generator.standard_normal((_WIDTH, _WIDTH), dtype=np.float32) for _ in range(2))
    expected = left @ right
    begun, count, wrong = time.perf_counter(), 0, 0
    while not count or time.perf_counter() - begun < seconds:
        wrong += not np.array_equal(left @ right, expected)
        count += 1
    figure = 2 * _WIDTH**3 * count / (time.perf_counter() - begun) / 1e12
    return Measurement("matmul", device, figure, "TFLOP/s", wrong, detail="float32, numpy")


def measure_copies(device: str, seconds: float) -> Measurement:
    """Returns bytes read and written a second of copies, and the number of copies that differ."""
    source = np.arange(_ELEMENTS, dtype=np.float32)
    target = np.empty_like(source)
    passed, count, wrong = 0.0, 0, 0
    until = time.perf_counter() + seconds
    while not count or time.perf_counter() < until:
        target.fill(0)
        begun = time.perf_counter()
        np.copyto(target, source)
        passed += time.perf_counter() - begun
        wrong += not np.array_equal(target, source)
        count += 1
    return Measurement("memory", device, 2 * source.nbytes * count / passed / 1e9, "GB/s", wrong, detail="numpy")
