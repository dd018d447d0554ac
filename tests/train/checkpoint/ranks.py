"""Starts ranks for a test: processes forked from this one, which has imported torch, in a gloo group of their own."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

TIMEOUT_S = 120.0
KILLED = -signal.SIGKILL

torch.set_num_threads(1)  # a process that has used several threads must not be forked


class Rank(NamedTuple):
    """A forked process, and the file for its result."""

    pid: int
    result_file: Path


def start(folder: Path, count: int, work: Callable[..., Any], *given: Any) -> list[Rank]:
    """Fork `count` ranks that call `work(rank, *given)` in one process group."""
    import_module("torch._dynamo")  # DTensors import it at their first use: once here, not on each rank
    folder.mkdir(parents=True)
    sys.stdout.flush()
    return [_forked(folder, rank, count, work, given) for rank in range(count)]


def run(folder: Path, count: int, work: Callable[..., Any], *given: Any) -> list[Any]:
    """Return the result of each rank. Raises AssertionError with the traceback of the first that failed."""
    return [outcome for outcome, _ in ended(start(folder, count, work, *given), fail=True)]


def ended(ranks: list[Rank], *, fail: bool = False) -> list[tuple[Any, int]]:
    """Return (result, exit code; minus a signal's number) of each rank, once all have ended.

    No process is left running.
    """
    codes = [_reaped(rank.pid, time.monotonic() + TIMEOUT_S) for rank in ranks]
    outcomes = []
    for rank, code in zip(ranks, codes, strict=True):
        written = rank.result_file.read_bytes() if rank.result_file.exists() else b""
        if fail:
            assert code == 0, f"rank ended with {code}\n{written.decode(errors='replace')}"
        outcome = pickle.loads(written) if code == 0 else written.decode(errors="replace")  # noqa: S301 - our own child's
        outcomes.append((outcome, code))
    return outcomes


def _reaped(pid: int, until: float) -> int:
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            os.kill(pid, signal.SIGKILL)
            until = float("inf")
        time.sleep(0.005)


def _forked(folder: Path, rank: int, count: int, work: Callable[..., Any], given: tuple[Any, ...]) -> Rank:
    result_file = folder / f"rank-{rank}"
    if pid := os.fork():
        return Rank(pid, result_file)
    code = 1
    torch.set_num_threads(1)  # renews the thread pool, which two threads must not do at once
    gc.freeze()  # a full collection of all that torch has imported takes 0.3 s
    try:
        store = dist.FileStore(str(folder / "store"), count)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=count)
        result_file.write_bytes(pickle.dumps(work(rank, *given)))
        code = 0
    except BaseException:  # noqa: BLE001 - the test tells it
        result_file.write_text(traceback.format_exc())
    finally:
        os._exit(code)
    raise AssertionError
