"""Runs the load tests one after the other: on all GPUs at once, or on the CPU where there are none."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from windlass.diagnose.host.burn.measurement import Measurement, decode

_WORKER = "windlass.diagnose.host.burn.worker"
_START_TIMEOUT_S = 120.0
"""Allowed for the imports of all workers, the driver's start, and the slowest last round of a test."""
_CPU_RANKS = 2


def burn(seconds: float, gpus: int, folders: Sequence[str], progress: Callable[[str], None]) -> list[Measurement]:
    """Returns the measurements of all tests, each of about `seconds`. `progress` gets a line before each."""
    devices = [f"cuda:{index}" for index in range(gpus)] or ["cpu"]
    found: list[Measurement] = []
    for test in ("matmul", "memory"):
        progress(f"{test} on {', '.join(devices)}, {seconds:g} s")
        found += _run_workers([[test, device, str(seconds)] for device in devices], seconds)
    found += _all_reduce(seconds, gpus, progress)
    for folder in dict.fromkeys(folders):
        progress(f"disk at {folder}, {seconds:g} s")
        found += _run_workers([["disk", folder, str(seconds)]], seconds)
    return found


def _all_reduce(seconds: float, gpus: int, progress: Callable[[str], None]) -> list[Measurement]:
    """Measures by NCCL between the GPUs, by gloo between two processes where there are none."""
    if gpus == 1:
        return [Measurement("all-reduce", "cuda:0", failure="one GPU has no peer on this machine", is_possible=False)]
    ranks = gpus or _CPU_RANKS
    progress(f"all-reduce between {ranks} processes, {seconds:g} s")
    with tempfile.TemporaryDirectory(prefix="windlass-burn-") as folder:
        store = str(Path(folder, "store"))
        commands = [
            ["all-reduce", f"cuda:{rank}" if gpus else "cpu", str(seconds), store, str(rank), str(ranks)]
            for rank in range(ranks)
        ]
        return _summarize_ranks(_run_workers(commands, seconds))


def _summarize_ranks(found: list[Measurement]) -> list[Measurement]:
    """Returns one measurement for all ranks, the slowest; or those that failed."""
    if failed := [each for each in found if each.failure]:
        return failed
    slowest = min(found, key=lambda each: each.figure)
    wrong = sum(each.mismatches for each in found)
    return [Measurement("all-reduce", "node", slowest.figure, slowest.unit, wrong, detail=slowest.detail)]


def _run_workers(commands: Sequence[Sequence[str]], seconds: float) -> list[Measurement]:
    """Runs one worker for each command at the same time; returns their measurements."""
    until = time.monotonic() + _START_TIMEOUT_S + 3 * seconds
    running = [
        subprocess.Popen([sys.executable, "-m", _WORKER, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for command in commands
    ]
    try:
        return [*_collect(running, commands, until)]
    finally:
        for worker in running:
            worker.kill()
            worker.communicate()


def _collect(
    running: Sequence[subprocess.Popen[bytes]], commands: Sequence[Sequence[str]], until: float
) -> Iterator[Measurement]:
    for worker, (test, device, *_) in zip(running, commands, strict=True):
        try:
            out, errors = worker.communicate(timeout=max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            yield Measurement(test, device, failure="no answer in time: the device or its driver hangs")
            continue
        yield _read_answer(out, errors, worker.returncode, Measurement(test, device))


def _read_answer(out: bytes, errors: bytes, code: int, empty: Measurement) -> Measurement:
    """Returns the worker's measurement; without one, its exit code and its last line of errors."""
    try:
        return decode(out.decode("utf-8", "replace").strip().splitlines()[-1])
    except (IndexError, TypeError, ValueError):
        last = (errors.decode("utf-8", "replace").strip().splitlines() or ["no output"])[-1]
        return Measurement(empty.test, empty.device, failure=f"exit code {code}: {last[:300]}")
