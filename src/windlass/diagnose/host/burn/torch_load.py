"""Matrix products, copies and all-reduces by torch, on a GPU or on the CPU. Imports torch: only workers load it."""

from __future__ import annotations

import time
from datetime import timedelta

import torch
import torch.distributed as dist

from windlass.diagnose.host.burn.measurement import Measurement

_GPU_WIDTH, _CPU_WIDTH = 8192, 1024
_GPU_BYTES, _CPU_BYTES = 1 << 30, 1 << 27
_GPU_MESSAGE, _CPU_MESSAGE = 1 << 28, 1 << 24
_SMALL_MESSAGES = 20
_TIMEOUT = timedelta(seconds=60)


def measure_products(name: str, seconds: float) -> Measurement:
    """Returns operations a second of products, bf16 on a GPU and fp32 on a CPU; equal products must be equal bits."""
    device = torch.device(name)
    width, kind = (_GPU_WIDTH, torch.bfloat16) if device.type == "cuda" else (_CPU_WIDTH, torch.float32)
    generator = torch.Generator(device).manual_seed(0)
    left, right = (torch.randn(width, width, generator=generator, device=device, dtype=kind) for _ in range(2))
    expected = left @ right
    begun, count, wrong = _now(device), 0, 0
    while not count or _now(device) - begun < seconds:
        product = left @ right
        wrong += not torch.equal(product, expected)
        count += 1
    passed = _now(device) - begun
    label = str(kind).removeprefix("torch.")
    return Measurement("matmul", name, 2 * width**3 * count / passed / 1e12, "TFLOP/s", wrong, detail=label)


def measure_copies(name: str, seconds: float) -> Measurement:
    """Returns bytes read and written a second of copies within the memory of a device; copies must be equal."""
    device = torch.device(name)
    size = _GPU_BYTES if device.type == "cuda" else _CPU_BYTES
    source = torch.arange(size // 4, device=device, dtype=torch.int32)
    target = torch.empty_like(source)
    until, passed, count, wrong = time.perf_counter() + seconds, 0.0, 0, 0
    while not count or time.perf_counter() < until:
        target.zero_()
        begun = _now(device)
        target.copy_(source)
        passed += _now(device) - begun
        wrong += not torch.equal(target, source)
        count += 1
    return Measurement("memory", name, 2 * size * count / passed / 1e9, "GB/s", wrong)


def measure_all_reduces(name: str, seconds: float, store: str, rank: int, ranks: int) -> Measurement:
    """Returns the bus bandwidth of all-reduces between local processes, as nccl-tests counts it. A collective."""
    device = torch.device(name)
    backend = "nccl" if device.type == "cuda" else "gloo"
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=ranks, timeout=_TIMEOUT)
    try:
        latency = _measure_latency(device)
        size = _GPU_MESSAGE if device.type == "cuda" else _CPU_MESSAGE
        rate, wrong = _measure_rate(device, size, seconds, rank, ranks)
    finally:
        dist.destroy_process_group()
    detail = f"{backend}, {ranks} ranks, {size >> 20} MiB, latency {latency * 1e6:,.0f} µs"
    return Measurement("all-reduce", f"rank {rank}", rate, "GB/s", wrong, detail=detail)


def _measure_rate(device: torch.device, size: int, seconds: float, rank: int, ranks: int) -> tuple[float, int]:
    """Returns GB/s and the number of wrong sums. Rank 0 decides when it is enough, so all do the same number."""
    begun, passed, count, wrong = time.perf_counter(), 0.0, 0, 0
    goes_on = torch.ones(1, device=device)
    while goes_on.item():
        values = torch.full((size // 4,), float(rank + 1), device=device)
        dist.barrier()
        start = _now(device)
        dist.all_reduce(values)
        passed += _now(device) - start
        wrong += not bool((values == ranks * (ranks + 1) / 2).all())
        count += 1
        goes_on.fill_(float(time.perf_counter() - begun < seconds))
        dist.broadcast(goes_on, 0)
    return 2 * (ranks - 1) / ranks * size * count / passed / 1e9, wrong


def _measure_latency(device: torch.device) -> float:
    """Returns seconds of an all-reduce of one number, after a first one that connects the ranks."""
    value = torch.ones(1, device=device)
    dist.all_reduce(value)
    begun = _now(device)
    for _ in range(_SMALL_MESSAGES):
        dist.all_reduce(value)
    return (_now(device) - begun) / _SMALL_MESSAGES


def _now(device: torch.device) -> float:
    """Returns the time at which the device has done everything so far."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
